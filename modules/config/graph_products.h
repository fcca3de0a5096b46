// SPDX-License-Identifier: MIT
// The order of products and sums in the convolutions of a graph network. The layers and the code that plans them read
// it here, so that they agree.
#pragma once

#include <cstdint>

#include "kernels/neighbor_aggregate/reduction.h"
#include "modules/config/graph_network_config.h"

namespace strata::modules {

inline kernels::Reduction reduction_of(const GraphNetworkConfig& config) {
  if (config.convolution != GraphConvolutionKind::sage) return kernels::Reduction::sum;
  return config.reduction == SageReduction::mean ? kernels::Reduction::mean : kernels::Reduction::max;
}

// True if the product comes before the sum over neighbors, because outputs are narrower than inputs. The sum must be a
// linear function of the neighbors, which gin and max are not.
inline bool multiplies_first(const GraphNetworkConfig& config, int64_t layer) {
  const bool is_linear =
      config.convolution != GraphConvolutionKind::gin && reduction_of(config) != kernels::Reduction::max;
  return is_linear && config.outputs_of(layer) < config.inputs_of(layer);
}

// The part of a layer that sums over neighbors or attends to them. Empty: the layer itself.
inline const char* part_that_aggregates(GraphConvolutionKind convolution) {
  if (convolution == GraphConvolutionKind::gin) return "";
  return convolution == GraphConvolutionKind::gat ? "attention" : "neighbor";
}

// True if the layer multiplies what was aggregated before the first step. `gathered_once`: the features were aggregated
// once, because the graph is the same in every step. gat multiplies first and aggregates afterwards, so it never does.
inline bool takes_gathered_features(const GraphNetworkConfig& config, int64_t layer, bool gathered_once) {
  return gathered_once && !config.is_activated(layer) && config.convolution != GraphConvolutionKind::gat;
}

// Width of one head of gat. The outputs of heads are concatenated; in the layer that gives classes they are averaged.
inline int64_t outputs_of_head(const GraphNetworkConfig& config, int64_t layer) {
  return config.gives_classes(layer) ? config.outputs_of(layer) : config.outputs_of(layer) / config.heads;
}

// Rounds the outputs up to whole vectors of 16 bytes, in which GPUs read rows.
inline int64_t width_in_vectors(int64_t outputs, int64_t element_bytes) {
  const int64_t width = 16 / element_bytes;
  return (outputs + width - 1) / width * width;
}

}  // namespace strata::modules
