// SPDX-License-Identifier: MIT
// The weights of a checkpoint as whole tensors, for programs that compute with them on one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "trainer/checkpoint/checkpoint_loader.h"

namespace strata::tools {

// Reads the moving averages of the weights if the checkpoint has them, otherwise the weights, by name and without
// gradients. `type_of` gives the type to which the weights of a group are rounded, by the name of the group.
std::map<std::string, at::Tensor> read_weights(const trainer::FoundCheckpoint& found,
                                               const std::vector<modules::ParameterGroup>& groups, at::Device device,
                                               const std::function<at::ScalarType(const std::string& group)>& type_of);

}  // namespace strata::tools
