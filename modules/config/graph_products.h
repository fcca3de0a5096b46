// SPDX-License-Identifier: MIT
// What the convolutions of a graph network do in which order: what the layers, and those who plan them, must agree on.
#pragma once

#include <cstdint>

#include "kernels/neighbor_aggregate/reduction.h"
#include "modules/config/graph_network_config.h"

namespace strata::modules {

inline kernels::Reduction reduction_of(const GraphNetworkConfig& config) {
  if (config.convolution != GraphConvolutionKind::sage) return kernels::Reduction::sum;
  return config.reduction == SageReduction::mean ? kernels::Reduction::mean : kernels::Reduction::max;
}

// Where outputs are narrower than inputs, neighbors are summed behind the product instead of in front of it; not where
// that is no linear function of them.
inline bool multiplies_first(const GraphNetworkConfig& config, int64_t layer) {
  const bool is_linear =
      config.convolution != GraphConvolutionKind::gin && reduction_of(config) != kernels::Reduction::max;
  return is_linear && config.outputs_of(layer) < config.inputs_of(layer);
}

// The part of a layer that sums over neighbors, or attends to them; empty: the layer itself.
inline const char* part_that_aggregates(GraphConvolutionKind convolution) {
  if (convolution == GraphConvolutionKind::gin) return "";
  return convolution == GraphConvolutionKind::gat ? "attention" : "neighbor";
}

// Whether a layer's product is taken of what was gathered before the first step. `gathered_once`: the features are, of
// a graph that is the same in every step; gat attends to neighbors behind the product.
inline bool takes_gathered_features(const GraphNetworkConfig& config, int64_t layer, bool gathered_once) {
  return gathered_once && !config.is_activated(layer) && config.convolution != GraphConvolutionKind::gat;
}

// Of a head of gat: heads stand side by side, but where there are classes their mean is taken.
inline int64_t outputs_of_head(const GraphNetworkConfig& config, int64_t layer) {
  return config.gives_classes(layer) ? config.outputs_of(layer) : config.outputs_of(layer) / config.heads;
}

// Outputs that fill vectors of 16 bytes, in which GPUs read rows.
inline int64_t width_in_vectors(int64_t outputs, int64_t element_bytes) {
  const int64_t width = 16 / element_bytes;
  return (outputs + width - 1) / width * width;
}

}  // namespace strata::modules
