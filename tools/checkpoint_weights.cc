// SPDX-License-Identifier: MIT
#include "tools/checkpoint_weights.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace strata::tools {

std::map<std::string, at::Tensor> read_weights(const trainer::FoundCheckpoint& found,
                                               const std::vector<modules::ParameterGroup>& groups, at::Device device,
                                               const std::function<at::ScalarType(const std::string& group)>& type_of) {
  std::map<std::string, at::Tensor> weights;
  std::map<std::string, at::ScalarType> types;
  std::vector<trainer::TensorPiece> pieces;
  for (const modules::ParameterGroup& group : groups) {
    for (const modules::Parameter& parameter : group.parameters) {
      const at::Tensor flat = at::empty({parameter.elements()}, at::TensorOptions(at::kFloat).device(device));
      pieces.push_back({parameter.name + best_weights(found.manifest), parameter.shape, 0, flat});
      weights[parameter.name] = flat.view(parameter.shape);
      types[parameter.name] = type_of(group.name);
    }
  }
  read_pieces(found, pieces);
  pieces.clear();  // so that each tensor is freed when it is rounded
  for (auto& [name, weight] : weights) weight = weight.to(types.at(name));
  return weights;
}

}  // namespace strata::tools
