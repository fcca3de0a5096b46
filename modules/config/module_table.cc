// SPDX-License-Identifier: MIT
#include "modules/config/module_table.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "base/nearest_name.h"
#include "configs/range.h"
#include "modules/config/block_config.h"
#include "modules/config/graph_products.h"
#include "modules/config/module_name.h"
#include "modules/config/stochastic_depth.h"

namespace strata::modules {
namespace {

using Ops = std::vector<std::string_view>;
using Modules = std::vector<Module>;

Ops dropout_if(bool there) { return there ? Ops{"dropout"} : Ops{}; }

Module part_of(const std::string& layer, std::string_view part, const Ops& ops) {
  return {joined_name(layer, part), layer, ops};
}

// The dropout at the end of a residual branch counts as an op of the branch.
void add_blocks(const BlockConfig& config, Modules& modules) {
  const Ops norm = {config.root_mean_square ? "rms_norm" : "layer_norm"}, linear = {"linear"};
  for (int64_t index = 0; index < config.layers; ++index) {
    const std::string block = block_name(index);
    const auto add = [&](std::string_view part, const Ops& ops) { modules.push_back(part_of(block, part, ops)); };
    const Ops dropout = dropout_if(config.dropout > 0 || share_left_out(config, index) > 0);
    Ops attention = dropout, mlp = dropout;
    attention.push_back("attention");
    if (config.rotary) attention.push_back("rotary");
    if (config.gated) mlp.push_back("activation");
    add("", {});
    add("norm1", norm);
    add("attention", attention);
    add("attention.qkv", linear);
    add("attention.output", linear);
    if (config.layer_scale > 0) add("attention_scale", {});
    add("norm2", norm);
    add("mlp", mlp);
    add(config.gated ? "mlp.gate_up" : "mlp.up", linear);
    add("mlp.down", linear);
    if (config.layer_scale > 0) add("mlp_scale", {});
  }
}

Modules modules_of(const TransformerConfig& model, const ModuleUse& use) {
  Modules modules;
  Ops embedding = dropout_if(model.dropout > 0);
  embedding.push_back("embedding");
  modules.push_back({"embedding", "root", embedding});
  if (model.family == Family::gpt2) modules.push_back({"position", "root", {"embedding"}});
  const BlockConfig block = block_config(model);
  add_blocks(block, modules);
  modules.push_back({"norm", "root", {block.root_mean_square ? "rms_norm" : "layer_norm"}});
  modules.push_back({"head", head_group(model), use.head_and_loss_are_one ? Ops{} : Ops{"linear"}});
  return modules;
}

Modules modules_of(const VisionTransformerConfig& model, const ModuleUse&) {
  Modules modules;
  Ops embedding = dropout_if(model.dropout > 0);
  embedding.push_back("linear");
  modules.push_back({"patch_embedding", "root", embedding});
  if (model.pooling == Pooling::class_token) modules.push_back({"class_token", "root"});
  modules.push_back({"position", "root"});
  add_blocks(block_config(model), modules);
  modules.push_back({"norm", "root", {"layer_norm"}});
  modules.push_back({"head", "head", {"linear"}});
  return modules;
}

void add_graph_layer(const GraphNetworkConfig& model, int64_t index, const ModuleUse& use, Modules& modules) {
  const std::string layer = graph_layer_name(index);
  const auto add = [&](std::string_view part, Ops ops) {
    if (part == part_that_aggregates(model.convolution)) ops.push_back("neighbor_aggregate");
    modules.push_back(part_of(layer, part, ops));
  };
  const bool starts_with_relu = model.starts_with_relu(index);
  const bool is_gathered = takes_gathered_features(model, index, use.features_are_gathered_once);
  const bool is_gat = model.convolution == GraphConvolutionKind::gat;
  // The relu is an op of its own if the convolution does not end with a linear op whose epilogue it could be.
  const bool ends_alone = model.ends_in_relu(index) && (is_gat || (multiplies_first(model, index) && !is_gathered));
  Ops ops = dropout_if(starts_with_relu && model.dropout > 0);
  if (starts_with_relu || ends_alone) ops.push_back("activation");
  add("", ops);
  if (model.norm && model.is_activated(index)) add("norm", {"layer_norm"});
  switch (model.convolution) {
    case GraphConvolutionKind::sage:
      add("neighbor", {"linear"});
      add("self", {});  // its product is fused with that of neighbor, or runs at the same level
      break;
    case GraphConvolutionKind::gcn:
      add("neighbor", {"linear"});
      break;
    case GraphConvolutionKind::gin:
      add("mlp", {});
      add("mlp.up", {"linear"});
      add("mlp.down", {"linear"});
      break;
    case GraphConvolutionKind::gat:
      add("neighbor", {"linear"});
      add("attention", {"linear"});
  }
}

Modules modules_of(const GraphNetworkConfig& model, const ModuleUse& use) {
  Modules modules;
  if (model.has_projection()) {
    const bool sparse = model.projection == InputProjection::sparse;
    modules.push_back({"projection", "root", {sparse ? "neighbor_aggregate" : "linear"}});
  }
  for (int64_t index = 0; index < model.layers; ++index) add_graph_layer(model, index, use, modules);
  if (!model.has_pooling()) return modules;
  modules.push_back({"pooling", "head", {"neighbor_aggregate"}});
  if (model.pooling == NodePooling::attention) modules.push_back({"pooling.gate", "head", {"linear"}});
  modules.push_back({"head", "head", {"linear"}});
  return modules;
}

}  // namespace

std::vector<Module> module_table(const ModelConfig& model, const ModuleUse& use) {
  return std::visit([&](const auto& type) { return modules_of(type, use); }, model.type);
}

std::string problem_of_module(const std::string& name, const std::vector<Module>& modules) {
  bool is_known = false;
  int64_t layers = 0;
  std::string list;  // blocks
  std::vector<std::string> names;
  for (const Module& module : modules) {
    is_known = is_known || means(name, module.name);
    if (const auto layer = layer_of(module.name)) {
      layers = *layer + 1;
      list = module.name.substr(0, module.name.find('.'));
    }
    const std::string in_layer(name_in_layer(module.name));
    if (!in_layer.empty() && std::find(names.begin(), names.end(), in_layer) == names.end()) names.push_back(in_layer);
  }
  const std::optional<configs::Range> range = layers_in(name);
  if (range && (range->last >= layers || range->first > range->last)) {
    return "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got '" + name + "'";
  }
  if (is_known) return "";

  std::string meant;
  if (range) {  // a layer with a wrong name, or an unknown part of a layer
    const size_t end = name.find('.', name.find('.') + 1);
    const std::string layer = list + "." + text_of(*range);
    if (end == std::string::npos) {
      meant = layer;
    } else if (const std::string part = nearest_name(name.substr(end + 1), names); !part.empty()) {
      meant = layer + "." + part;
    }
  } else {
    meant = nearest_name(name, names);
  }
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  return "expected a module of this model (" + known + "), alone or behind its layer (" + list + ".0), got '" + name +
         "'" + did_you_mean(meant);
}

std::string head_group(const TransformerConfig& model) { return model.tied ? "root" : "head"; }

}  // namespace strata::modules
