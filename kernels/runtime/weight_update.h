// SPDX-License-Identifier: MIT
// What all ops that update weights have in common: the numbers of a step, and the check of the tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include "kernels/runtime/level.h"

namespace strata::kernels {

// Numbers that change from step to step: 0-dim fp32 tensors on the device, so that a captured CUDA graph reads their
// current values.
struct UpdateScalars {
  at::Tensor learning_rate;
  at::Tensor step;            // number of this update, 1 for the first
  at::Tensor gradient_scale;  // factor on the gradient, for gradient clipping
  at::Tensor skip;            // nonzero: master and moments stay unchanged
};

using NamedTensor = std::pair<std::string_view, at::Tensor>;

// Throws a ValueError that names the tensor, unless all this holds. Master is floating point. Moments have its shape,
// dtype and device. Gradient, floating point, and compute copy have its shape and device; the copy may be undefined.
// Scalars are as described above, on the device of master.
void check_update(std::string_view op, Level level, const at::Tensor& master,
                  std::initializer_list<NamedTensor> moments, const at::Tensor& gradient,
                  const at::Tensor& compute_copy, const UpdateScalars& scalars);

}  // namespace strata::kernels
