// SPDX-License-Identifier: MIT
// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over the last dimension; alone, or with the residual added first.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/norms/normed_sum.h"
#include "kernels/runtime/kernel_table.h"
#include "kernels/runtime/weight_gradient.h"

namespace strata::kernels {

// x [..., D], weight [D] -> [..., D]
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Level level);

// sum = residual + branch, y = rms_norm(sum)
NormedSum add_rms_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, double eps, Level level);

struct RmsNormOp {
  static constexpr std::string_view kName = "rms_norm";
  struct Output {
    Tensor y, rstd;  // rstd [..., 1] = 1 / sqrt(mean(x^2) + eps), fp32 or wider, saved for backward
  };
  struct Gradient {
    Tensor x, weight;  // weight undefined when it was written into a buffer
  };
  using Forward = Output(const Tensor& x, const Tensor& weight, double eps);
  using Backward = Gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const WeightGradient& into);
  static const KernelTable<RmsNormOp> kKernels;
};

RmsNormOp::Forward rms_norm_forward_cuda;
RmsNormOp::Backward rms_norm_backward_cuda;
RmsNormOp::Forward rms_norm_forward_triton;
RmsNormOp::Backward rms_norm_backward_triton;

struct AddRmsNormOp {
  static constexpr std::string_view kName = "add_rms_norm";
  struct Output {
    Tensor y, sum, rstd;
  };
  struct Gradient {
    Tensor sum, weight;  // the gradient of sum is that of residual and of branch
  };
  using Forward = Output(const Tensor& residual, const Tensor& branch, const Tensor& weight, double eps);
  // grad_sum is what came through the sum itself; undefined when nothing did.
  using Backward = Gradient(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& sum, const Tensor& weight,
                            const Tensor& rstd, const WeightGradient& into);
  static const KernelTable<AddRmsNormOp> kKernels;
};

AddRmsNormOp::Forward add_rms_norm_forward_triton;
AddRmsNormOp::Backward add_rms_norm_backward_triton;
AddRmsNormOp::Forward add_rms_norm_forward_cuda;
AddRmsNormOp::Backward add_rms_norm_backward_cuda;

}  // namespace strata::kernels
