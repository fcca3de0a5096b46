// SPDX-License-Identifier: MIT
// adamw: one update with decoupled weight decay and bias correction (Loshchilov and Hutter 2019) of one flat tensor of
// parameters and its moments.
//   g = gradient * gradient_scale
//   first  = beta1 * first + (1 - beta1) * g,    second = beta2 * second + (1 - beta2) * g^2
//   master = master * (1 - learning_rate * weight_decay)
//            - learning_rate / (1 - beta1^step) * first / (sqrt(second) / sqrt(1 - beta2^step) + epsilon)
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/runtime/kernel_table.h"
#include "kernels/runtime/weight_update.h"

namespace strata::kernels {

using at::Tensor;

struct AdamwOptions {
  double beta1, beta2, epsilon, weight_decay;
};

// adamw(master, first_moment, second_moment, gradient, compute_copy, scalars, options, level): one update in place;
// g = gradient * gradient_scale, first = beta1 * first + (1 - beta1) * g, second = beta2 * second + (1 - beta2) * g^2
//
// Updates master and moments in place, all [n]. The compute copy receives master cast to the copy's own dtype; it is
// undefined if there is no copy. The gradient stays unchanged. Throws a ValueError if the tensors do not match: see
// check_update. Levels aot_inductor, triton and cuda need an fp32 master.
void adamw(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient, Tensor& compute_copy,
           const UpdateScalars& scalars, const AdamwOptions& options, Level level);

struct AdamwOp {
  static constexpr std::string_view kName = "adamw";
  using Forward = void(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                       Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options);
  using Backward = NotDifferentiable;
  static const KernelTable<AdamwOp> kKernels;
};

AdamwOp::Forward adamw_forward_cuda;
AdamwOp::Forward adamw_forward_triton;

using AdamwOps = OpList<AdamwOp>;

}  // namespace strata::kernels
