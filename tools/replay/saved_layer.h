// SPDX-License-Identifier: MIT
// One call of a layer, saved in a folder with all that is needed to run it alone.
//
//   nonfinite.json      which call it was, what it was found to make, and facts of its tensors
//   layer.safetensors   weight.<parameter>, amax.<module>, input.*, output_gradient.*, context.*
//   resolved.yaml       the configuration of the replay
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/replay/tensor_facts.h"

namespace strata::tools {

inline constexpr char kSavedLayerFacts[] = "nonfinite.json", kSavedLayerTensors[] = "layer.safetensors",
                      kSavedLayerConfig[] = "resolved.yaml";

// The two tensors of a modules::ResidualStream, as in input.residual and input.branch.
inline constexpr std::array<const char*, 2> kStreamParts = {"residual", "branch"};

struct SavedLayer {
  int64_t step = 0, micro_batch = 0, rank = 0, ranks = 1;
  int64_t layer = 0;          // index of the layer
  std::string name;           // blocks.3
  std::string op;             // the first op that made a value that is not finite; empty if no op of LibTorch did
  bool backward = false;      // the outputs were finite, and a gradient that the layer computed was not
  int64_t first_row = 0;      // see modules::StepContext
  int64_t sources = 0;        // sources of the layer's graph, if it reads one
  std::string gradient_type;  // type of the buffers for gradients of weights: F32
  // On the CPU: weight.<parameter>, input.residual, input.branch, output_gradient.residual, output_gradient.branch,
  // amax.<module> (fp32 [3], the numbers from which delayed scales of its three operands follow), context.dropout_key,
  // context.cosine, context.sine, context.graph_offsets, context.graph_neighbors, context.edge_weight,
  // context.aggregated_features, context.document_offsets. What the call did not have is absent.
  std::map<std::string, at::Tensor> tensors;

  // Facts of tensors that the replay saw and that are not saved: output.*, input_gradient.*,
  // weight_gradient.<parameter>.
  struct Seen {
    std::string dtype;
    std::vector<int64_t> shape;
    TensorFacts facts;
  };
  std::map<std::string, Seen> seen;

  const at::Tensor* find(const std::string& tensor) const;  // null if absent
};

SavedLayer::Seen seen(const at::Tensor& tensor);
at::ScalarType gradient_type(const SavedLayer& layer);

// Creates the folder or replaces what is in it. Throws Error (storage).
void write_layer(const std::string& folder, const SavedLayer& layer, const std::string& resolved_config);
// Throws Error (storage) with the file and the problem.
SavedLayer read_layer(const std::string& folder);

}  // namespace strata::tools
