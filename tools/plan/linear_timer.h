// SPDX-License-Identifier: MIT
// Times a linear layer as a step calls it: modules::Linear, with the kernels that make operands of a number format, and
// with the activation that follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "kernels/linear/linear_shape.h"
#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "trainer/levels/format_choice.h"

namespace strata::tools {

// `module` is the full name of the layer, by which `formats` chooses; null: it has no format. Weights and gradients of
// outputs are random numbers in `dtype`, and gradients of parameters are written in fp32, as a step keeps them.
// Delayed scales have a history.
trainer::LinearTimes time_linear(const std::string& module, const kernels::LinearShape& shape,
                                 const modules::KernelsConfig& kernels, const modules::LinearFormatsConfig* formats,
                                 at::ScalarType dtype, at::Device device);

}  // namespace strata::tools
