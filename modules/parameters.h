// SPDX-License-Identifier: MIT
// How a model finds its parameters: by name, in buffers that somebody else owns.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace strata::modules {

using at::Tensor;

// The tensor for a name of the parameter table, a leaf that requires gradients. Its data may be absent until the layer
// that uses it runs: a model keeps the tensor and never copies it. Unknown names throw.
using ParameterLookup = std::function<Tensor(const std::string& name)>;

}  // namespace strata::modules
