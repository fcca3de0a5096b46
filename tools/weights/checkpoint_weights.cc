// SPDX-License-Identifier: MIT
#include "tools/weights/checkpoint_weights.h"

#include <ATen/ops/empty.h>

#include <cstdio>

#include "base/ranks.h"
#include "tools/weights/rounded_weight.h"

namespace strata::tools {

trainer::FoundCheckpoint checkpoint_of_run(const std::string& folder, std::optional<int64_t> step) {
  const auto found =
      trainer::find_checkpoint({.folder = folder + "/checkpoints", .required = true, .step = step}, Ranks{});
  for (const std::string& note : found->notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  return *found;
}

std::map<std::string, at::Tensor> read_weights(const trainer::FoundCheckpoint& found,
                                               const std::vector<modules::ParameterGroup>& groups, at::Device device,
                                               const std::function<at::ScalarType(const std::string& group)>& type_of,
                                               const PrunedWeights& pruned) {
  std::map<std::string, at::Tensor> weights;
  std::vector<trainer::TensorPiece> pieces;
  for (const modules::ParameterGroup& group : groups) {
    for (const modules::Parameter& parameter : group.parameters) {
      const at::Tensor flat = at::empty({parameter.elements()}, at::TensorOptions(at::kFloat).device(device));
      pieces.push_back({parameter.name + best_weights(found.manifest), parameter.shape, 0, flat});
      weights[parameter.name] = flat.view(parameter.shape);
    }
  }
  read_pieces(found, pieces);
  pieces.clear();  // so that each tensor is freed when it is rounded
  for (const modules::ParameterGroup& group : groups) {
    for (const modules::Parameter& parameter : group.parameters) {
      at::Tensor& weight = weights.at(parameter.name);
      weight = rounded_weight(parameter.name, pruned(parameter.name, weight), type_of(group.name));
    }
  }
  return weights;
}

}  // namespace strata::tools
