// SPDX-License-Identifier: MIT
// The `model:` section: the model to train.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "modules/config/graph_network_config.h"
#include "modules/config/kernels_config.h"
#include "modules/config/mixer_config.h"
#include "modules/config/model_attention.h"
#include "modules/config/parameter_group.h"
#include "modules/config/transformer_config.h"
#include "modules/config/vision_transformer_config.h"

namespace strata::modules {

// Each alternative has kItem, kHasBlocks, kIsGraph, kCanFuseHead, items_per_sample() and layers, and a check(),
// flops_per_item() and attention_of() of its own.
struct ModelConfig {
  std::variant<TransformerConfig, VisionTransformerConfig, MixerConfig, GraphNetworkConfig> type = {};
  static constexpr std::array<const char*, 4> kTypes = {"transformer", "vision_transformer", "mixer", "graph_network"};

  std::string type_name() const { return kTypes.at(type.index()); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, kTypes, "type of the model");
  }
};

inline bool has_blocks(const ModelConfig& model) {
  return std::visit([](const auto& config) { return config.kHasBlocks; }, model.type);
}
inline bool is_graph(const ModelConfig& model) {
  return std::visit([](const auto& config) { return config.kIsGraph; }, model.type);
}
inline bool can_fuse_head(const ModelConfig& model) {
  return std::visit([](const auto& config) { return config.kCanFuseHead; }, model.type);
}

inline int64_t layer_count(const ModelConfig& model) {
  return std::visit([](const auto& config) { return config.layers; }, model.type);
}
inline int64_t items_per_sample(const ModelConfig& model) {
  return std::visit([](const auto& config) { return config.items_per_sample(); }, model.type);
}
// Nothing: no layer computes op attention. Throws the Error of a wrong pattern.
inline std::optional<ModelAttention> attention_of(const ModelConfig& model) {
  return std::visit([](const auto& config) { return attention_of(config); }, model.type);
}
// See transformer_config.h.
inline std::string unreached_scaling(const ModelConfig& model) {
  const auto* language = std::get_if<TransformerConfig>(&model.type);
  return language == nullptr ? "" : unreached_scaling(*language);
}
// Copies the entries of `layers:` into a model whose layers may differ.
inline void set_layer_overrides(ModelConfig& model, const std::vector<LayerConfig>& layers) {
  const auto set = [&layers](auto& config) {
    if constexpr (requires { config.layer_overrides; }) config.layer_overrides = layers;
  };
  std::visit(set, model.type);
}

// FLOPs by the usual convention, for MFU: matrix products and attention, forward and backward, without recomputation.
// `groups` are the parameters that the model declares. For each item (kItem):
//   token  6 x (elements of matrices, the head included, the embeddings not) + 12 x heads x width of a head x keys,
//          with the sum over layers of the mean number of keys that a query sees. Causal attention counts half of the
//          positions of its document.
//   image  6 x products of its patches with the embedding, of its tokens with the matrices of layers, and of one vector
//          with the head; and 12 x tokens^2 x width x layers if every patch attends to every patch. A mixer's MLPs over
//          patches multiply channels instead of tokens.
//   node   6 x elements of matrices; sums over neighbors and the projection of sparse features are not counted
// Only tokens of a transformer have documents.
inline double flops_per_item(const ModelConfig& model, const std::vector<ParameterGroup>& groups,
                             const DocumentLengths& documents = {}) {
  const auto flops_of_model = [&]<class Model>(const Model& config) {
    if constexpr (std::is_same_v<Model, TransformerConfig>) return flops_per_item(config, groups, documents);
    return flops_per_item(config, groups);
  };
  return std::visit(flops_of_model, model.type);
}

}  // namespace strata::modules
