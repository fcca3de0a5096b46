// SPDX-License-Identifier: MIT
#include "modules/parameter_table.h"

namespace strata::modules {
namespace {

using Shape = std::vector<int64_t>;

// Adds the parameters of one group, in the order in which the model uses them.
class GroupBuilder {
 public:
  GroupBuilder(std::string name, std::string prefix, Family family) : prefix_(std::move(prefix)), family_(family) {
    group_.name = std::move(name);
  }

  void add(const std::string& name, Shape shape, Initialization initialization) {
    group_.parameters.push_back({prefix_ + name, std::move(shape), initialization});
  }

  void norm(const std::string& name, int64_t width) {
    add(name + ".weight", {width}, Initialization::ones);
    if (has_biases()) add(name + ".bias", {width}, Initialization::zeros);
  }

  void linear(const std::string& name, int64_t outputs, int64_t inputs, Initialization initialization) {
    add(name + ".weight", {outputs, inputs}, initialization);
    if (has_biases()) add(name + ".bias", {outputs}, Initialization::zeros);
  }

  ParameterGroup take() { return std::move(group_); }

 private:
  bool has_biases() const { return family_ == Family::gpt2; }

  ParameterGroup group_;
  std::string prefix_;
  Family family_;
};

ParameterGroup block(const TransformerConfig& config, int64_t index) {
  const std::string name = "blocks." + std::to_string(index);
  const int64_t width = config.width;
  const int64_t inner = config.feed_forward_width();
  const int64_t heads_in_qkv = config.heads + 2 * config.key_value_head_count();
  GroupBuilder group(name, name + ".", config.family);
  group.norm("norm1", width);
  group.linear("attention.qkv", heads_in_qkv * config.head_width(), width, Initialization::normal);
  group.linear("attention.output", width, width, Initialization::residual);
  group.norm("norm2", width);
  if (config.family == Family::llama) {
    group.linear("mlp.gate_up", 2 * inner, width, Initialization::normal);
  } else {
    group.linear("mlp.up", inner, width, Initialization::normal);
  }
  group.linear("mlp.down", width, inner, Initialization::residual);
  ParameterGroup layer = group.take();
  layer.is_layer = true;
  return layer;
}

}  // namespace

int64_t Parameter::elements() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

int64_t ParameterGroup::elements() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::vector<ParameterGroup> parameter_table(const TransformerConfig& config) {
  std::vector<ParameterGroup> table;
  GroupBuilder root("root", "", config.family);
  root.add("embedding.weight", {config.vocabulary, config.width}, Initialization::normal);
  if (config.family == Family::gpt2) {
    root.add("position.weight", {config.sequence, config.width}, Initialization::normal);
  }
  root.norm("norm", config.width);
  table.push_back(root.take());
  for (int64_t index = 0; index < config.layers; ++index) table.push_back(block(config, index));
  if (!config.tied) {
    GroupBuilder head("head", "", config.family);
    head.add("head.weight", {config.vocabulary, config.width}, Initialization::normal);
    table.push_back(head.take());
  }
  return table;
}

int64_t parameter_count(const std::vector<ParameterGroup>& table) {
  int64_t sum = 0;
  for (const ParameterGroup& group : table) sum += group.elements();
  return sum;
}

double flops_per_item(const TransformerConfig& config) {
  int64_t in_block = 0;
  for (const Parameter& parameter : block(config, 0).parameters) {
    if (parameter.shape.size() == 2) in_block += parameter.elements();
  }
  const double layers = static_cast<double>(config.layers);
  const double matrices = layers * static_cast<double>(in_block) +
                          static_cast<double>(config.vocabulary) * static_cast<double>(config.width);
  return 6 * matrices + 6 * static_cast<double>(config.sequence) * static_cast<double>(config.width) * layers;
}

}  // namespace strata::modules
