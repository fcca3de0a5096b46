// SPDX-License-Identifier: MIT
// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich 2019), alone or with the
// residual added first.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/norms/normed_sum.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// rms_norm(x, weight, eps, level): y = x / sqrt(mean(x^2) + eps) * weight
//
// x [..., D] and weight [D] of one floating point dtype -> y [..., D]. Saves x, weight and rstd for backward. Throws a
// ValueError if a shape, dtype or device does not match, or at level triton if D > 16384.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Level level);

// add_rms_norm(residual, branch, weight, eps, level): sum = residual + branch, y = rms_norm(sum)
//
// sum = residual + branch, y = rms_norm(sum); residual and branch are [..., D]. Saves sum, weight and rstd for
// backward.
NormedSum add_rms_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, double eps, Level level);

struct RmsNormOp {
  static constexpr std::string_view kName = "rms_norm";
  struct Output {
    Tensor y, sum, rstd;  // rstd [..., 1] = 1 / sqrt(mean(x^2) + eps), fp32 or wider, saved for backward
  };
  struct Gradient {
    Tensor x, weight;  // weight is undefined if it was written into a buffer
  };
  // Normalizes x, or sum = x + branch. If `branch` is undefined, so is the output `sum`. x, branch, y and sum are
  // [..., D], weight is [D].
  using Forward = Output(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps);
  // x is what was normalized: the sum if there was a branch. grad_sum is the gradient of the output `sum`, undefined if
  // there is none.
  using Backward = Gradient(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x, const Tensor& weight,
                            const Tensor& rstd, const GradientDestination& into);
  static const KernelTable<RmsNormOp> kKernels;
};

// AddRmsNormOp has the kernels of RmsNormOp, called with a branch. The gradients of residual and of branch both equal
// the gradient of sum. Without grad_sum the backward of rms_norm runs, so errors of levels aot_inductor and cuda name
// rms_norm.
struct AddRmsNormOp {
  static constexpr std::string_view kName = "add_rms_norm";
  using Forward = RmsNormOp::Forward;
  using Backward = RmsNormOp::Backward;
  static const KernelTable<AddRmsNormOp> kKernels;
};

RmsNormOp::Forward rms_norm_forward_triton;
RmsNormOp::Backward rms_norm_backward_triton;
RmsNormOp::Forward rms_norm_forward_cuda;
RmsNormOp::Backward rms_norm_backward_cuda;

using RmsNormOps = OpList<RmsNormOp, AddRmsNormOp>;

}  // namespace strata::kernels
