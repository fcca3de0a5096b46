// SPDX-License-Identifier: MIT
// adamw: one update with decoupled decay and bias correction, over one flat piece of parameters and their moments.
//   g = gradient * gradient_scale
//   first  = beta1 * first + (1 - beta1) * g,    second = beta2 * second + (1 - beta2) * g^2
//   master = master * (1 - learning_rate * weight_decay)
//            - learning_rate / (1 - beta1^step) * first / (sqrt(second) / sqrt(1 - beta2^step) + epsilon)
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// 0-dim fp32 on the device, so that a captured step can change them.
struct AdamwScalars {
  Tensor learning_rate;
  Tensor step;            // the number of this update, 1 for the first
  Tensor gradient_scale;  // factor on the gradient: clipping
  Tensor skip;            // nonzero: everything is left as it is
};

struct AdamwOptions {
  double beta1, beta2, epsilon, weight_decay;
};

// master, moments, gradient and compute_copy have one shape; master and moments one type. compute_copy receives master
// in its own type; undefined when no copy is kept. The gradient is left as it is.
void adamw(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient, Tensor& compute_copy,
           const AdamwScalars& scalars, const AdamwOptions& options, Level level);

struct AdamwOp {
  static constexpr std::string_view kName = "adamw";
  using Forward = void(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                       Tensor& compute_copy, const AdamwScalars& scalars, const AdamwOptions& options);
  using Backward = NotDifferentiable;
  static const KernelTable<AdamwOp> kKernels;
};

AdamwOp::Forward adamw_forward_cuda;
AdamwOp::Forward adamw_forward_triton;

}  // namespace strata::kernels
