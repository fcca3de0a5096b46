// SPDX-License-Identifier: MIT
#include "modules/config/parameter_table.h"

#include <cmath>

#include "modules/config/block_config.h"
#include "modules/config/graph_products.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

using Shape = std::vector<int64_t>;

// Adds the parameters of one group, in the order in which the model uses them.
class GroupBuilder {
 public:
  // has_biases: norms and linear layers have a bias.
  GroupBuilder(Role role, std::string name, std::string prefix, bool has_biases)
      : prefix_(std::move(prefix)), has_biases_(has_biases) {
    group_.name = std::move(name);
    group_.role = role;
  }

  void add(const std::string& name, Shape shape, Initialization initialization) {
    group_.parameters.push_back({prefix_ + name, std::move(shape), initialization});
  }

  void norm(const std::string& name, int64_t width) {
    add(name + ".weight", {width}, Initialization::ones);
    if (has_biases_) add(name + ".bias", {width}, Initialization::zeros);
  }

  void linear(const std::string& name, int64_t outputs, int64_t inputs, Initialization initialization) {
    add(name + ".weight", {outputs, inputs}, initialization);
    if (has_biases_) add(name + ".bias", {outputs}, Initialization::zeros);
  }

  void constant(const std::string& name, int64_t width, double value) {
    add(name, {width}, Initialization::constant);
    group_.parameters.back().constant = value;
  }

  void uniform(const std::string& name, Shape shape, double bound) {
    add(name, std::move(shape), Initialization::uniform);
    group_.parameters.back().constant = bound;
  }

  // Adds a layer with the initialization of torch.nn.Linear and PyG's Linear.
  void uniform_linear(const std::string& name, int64_t outputs, int64_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    uniform(name + ".weight", {outputs, inputs}, bound);
    if (has_biases_) uniform(name + ".bias", {outputs}, bound);
  }

  // Adds a matrix with the initialization of Glorot and Bengio 2010.
  void glorot(const std::string& name, int64_t rows, int64_t columns) {
    uniform(name, {rows, columns}, std::sqrt(6.0 / static_cast<double>(rows + columns)));
  }

  ParameterGroup take() { return std::move(group_); }

 private:
  ParameterGroup group_;
  std::string prefix_;
  bool has_biases_;
};

ParameterGroup block(const BlockConfig& config, int64_t index) {
  const std::string name = block_name(index);
  const int64_t width = config.width;
  const int64_t inner = config.feed_forward;
  const int64_t heads_in_qkv = config.heads + 2 * config.key_value_heads;
  GroupBuilder group(Role::layer, name, name + ".", config.biases);
  group.norm("norm1", width);
  group.linear("attention.qkv", heads_in_qkv * config.head_width(), width, config.inner_initialization);
  group.linear("attention.output", width, width, config.last_initialization);
  if (config.layer_scale > 0) group.constant("attention_scale.weight", width, config.layer_scale);
  group.norm("norm2", width);
  if (config.gated) {
    group.linear("mlp.gate_up", 2 * inner, width, config.inner_initialization);
  } else {
    group.linear("mlp.up", inner, width, config.inner_initialization);
  }
  group.linear("mlp.down", width, inner, config.last_initialization);
  if (config.layer_scale > 0) group.constant("mlp_scale.weight", width, config.layer_scale);
  return group.take();
}

ParameterGroup graph_layer(const GraphNetworkConfig& config, int64_t index) {
  const std::string name = graph_layer_name(index);
  const int64_t inputs = config.inputs_of(index), outputs = config.outputs_of(index);
  GroupBuilder group(Role::layer, name, name + ".", /*has_biases=*/true);
  if (config.norm && config.is_activated(index)) group.norm("norm", inputs);
  const auto add_bias = [&] { group.add("neighbor.bias", {outputs}, Initialization::zeros); };
  switch (config.convolution) {
    case GraphConvolutionKind::sage:
      group.uniform_linear("neighbor", outputs, inputs);
      group.uniform("self.weight", {outputs, inputs}, 1 / std::sqrt(static_cast<double>(inputs)));
      break;
    case GraphConvolutionKind::gcn:
      group.glorot("neighbor.weight", outputs, inputs);
      add_bias();
      break;
    case GraphConvolutionKind::gin:
      group.uniform_linear("mlp.up", config.width, inputs);
      group.uniform_linear("mlp.down", outputs, config.width);
      break;
    case GraphConvolutionKind::gat: {
      const int64_t of_head = outputs_of_head(config, index);
      group.glorot("neighbor.weight", config.heads * of_head, inputs);
      group.glorot("attention.source", config.heads, of_head);
      group.glorot("attention.target", config.heads, of_head);
      add_bias();
    }
  }
  return group.take();
}

}  // namespace

std::vector<ParameterGroup> parameter_table(const TransformerConfig& config) {
  std::vector<ParameterGroup> table;
  GroupBuilder root(Role::root, "root", "", /*has_biases=*/config.family == Family::gpt2);
  root.add("embedding.weight", {config.vocabulary, config.width}, Initialization::normal);
  if (config.family == Family::gpt2) {
    root.add("position.weight", {config.sequence, config.width}, Initialization::normal);
  }
  root.norm("norm", config.width);
  table.push_back(root.take());
  for (int64_t index = 0; index < config.layers; ++index) table.push_back(block(block_config(config), index));
  if (!config.tied) {
    GroupBuilder head(Role::head, "head", "", /*has_biases=*/false);
    head.add("head.weight", {config.vocabulary, config.width}, Initialization::normal);
    table.push_back(head.take());
  }
  return table;
}

std::vector<ParameterGroup> parameter_table(const VisionTransformerConfig& config) {
  std::vector<ParameterGroup> table;
  GroupBuilder root(Role::root, "root", "", /*has_biases=*/true);
  root.linear("patch_embedding", config.width, config.channels * config.patch * config.patch,
              Initialization::by_inputs);
  if (config.pooling == Pooling::class_token) root.add("class_token.weight", {config.width}, Initialization::normal);
  root.add("position.weight", {config.tokens(), config.width}, Initialization::normal);
  root.norm("norm", config.width);
  table.push_back(root.take());
  for (Parameter& parameter : table.back().parameters) parameter.never_decayed = parameter.name == "position.weight";
  for (int64_t index = 0; index < config.layers; ++index) table.push_back(block(block_config(config), index));
  GroupBuilder head(Role::head, "head", "", /*has_biases=*/true);
  head.linear("head", config.classes, config.width, Initialization::by_inputs);
  table.push_back(head.take());
  return table;
}

std::vector<ParameterGroup> parameter_table(const GraphNetworkConfig& config) {
  std::vector<ParameterGroup> table;
  if (config.has_projection()) {
    GroupBuilder root(Role::root, "root", "", /*has_biases=*/true);
    const double bound = 1 / std::sqrt(static_cast<double>(config.features));
    const bool sparse = config.projection == InputProjection::sparse;
    root.uniform("projection.weight",
                 sparse ? Shape{config.features, config.width} : Shape{config.width, config.features}, bound);
    root.uniform("projection.bias", {config.width}, bound);
    table.push_back(root.take());
  }
  for (int64_t index = 0; index < config.layers; ++index) table.push_back(graph_layer(config, index));
  if (config.has_pooling()) {
    GroupBuilder head(Role::head, "head", "", /*has_biases=*/true);
    if (config.pooling == NodePooling::attention) head.uniform_linear("pooling.gate", 1, config.width);
    head.uniform_linear("head", config.classes, config.width);
    table.push_back(head.take());
  }
  return table;
}

}  // namespace strata::modules
