// SPDX-License-Identifier: MIT
// The checkpoint of a run, and its weights as whole tensors, for programs that use them on one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "tools/weights/pruned_weights.h"
#include "trainer/checkpoint/checkpoint_loader.h"

namespace strata::tools {

// Returns the newest checkpoint that is whole of the run in this folder, or the one of a step. Notes about damaged ones
// go to stderr. Throws Error (storage) if there is none.
trainer::FoundCheckpoint checkpoint_of_run(const std::string& folder, std::optional<int64_t> step);

// Reads the moving averages of the weights if the checkpoint has them, otherwise the weights, by name and without
// gradients. `type_of` gives the type to which the weights of a group are rounded, by the name of the group: see
// rounded_weight. They are pruned before.
std::map<std::string, at::Tensor> read_weights(const trainer::FoundCheckpoint& found,
                                               const std::vector<modules::ParameterGroup>& groups, at::Device device,
                                               const std::function<at::ScalarType(const std::string& group)>& type_of,
                                               const PrunedWeights& pruned = {});

}  // namespace strata::tools
