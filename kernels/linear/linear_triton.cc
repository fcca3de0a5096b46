// SPDX-License-Identifier: MIT
// Level triton of linear: calls the kernels of linear_triton.py with tensors.
// N rows, I input width, O output width
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/partial_sums.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_triton_kernels.h"

namespace strata::kernels {
namespace {

// The number of programs that iterate over the rows of each block of 128 columns: eight for each multiprocessor.
int64_t walkers(int64_t rows, int64_t columns) {
  const int64_t column_blocks = (columns + 127) / 128;
  return std::min((rows + 15) / 16, std::max<int64_t>(8 * multiprocessors() / column_blocks, 1));
}

// grad_y times the derivative of the activation (grad_y itself if there is none), and partial sums of its columns.
struct GradientPass {
  Tensor grad_NO, partials;
};

GradientPass gradient_pass(const Tensor& grad_y, const Tensor& pre_activation, bool has_bias, Activation activation) {
  const int64_t out = grad_y.size(-1);
  const Tensor grad_NO = grad_y.reshape({-1, out}).contiguous();
  if (activation == Activation::none && !has_bias) return {grad_NO, {}};
  const Tensor result = activation == Activation::none ? grad_NO : at::empty(grad_NO.sizes(), grad_NO.options());
  const Tensor partials = at::empty({walkers(grad_NO.size(0), out), out}, grad_NO.options().dtype(at::kFloat));
  launch_linear_gradient_triton(grad_NO, pre_activation, result, partials, grad_NO.size(0), out,
                                triton_number(activation), partials.size(0));
  return {result, partials};
}

Tensor weight_gradient(const Tensor& grad_NO, const Tensor& x_NI, const GradientDestination& where) {
  // The product is written directly to the buffer if the kernel supports its dtype.
  const bool direct = where.into.defined() && where.into.is_contiguous() &&
                      (where.into.scalar_type() == x_NI.scalar_type() || where.into.scalar_type() == at::kFloat);
  const Tensor result = direct ? where.into : at::empty({grad_NO.size(1), x_NI.size(1)}, x_NI.options());
  launch_linear_weight_gradient_triton(grad_NO, x_NI, /*bias=*/{}, result, /*pre_activation=*/{}, grad_NO.size(1),
                                       x_NI.size(1), x_NI.size(0), /*kind=*/0, /*has_bias=*/0,
                                       /*keeps_pre_activation=*/0, direct && where.add);
  return direct ? Tensor() : accumulate(result, where);
}

}  // namespace

LinearOp::Output linear_forward_triton(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       Activation activation) {
  const int64_t in = weight.size(1), out = weight.size(0);
  const Tensor x_NI = x.reshape({-1, in}).contiguous();
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  const Tensor y = at::empty(shape, x.options());
  const bool keeps = needs_input(activation);
  const Tensor pre_activation = keeps ? at::empty(shape, x.options()) : Tensor();
  launch_linear_forward_triton(x_NI, weight.contiguous(), bias.defined() ? bias.contiguous() : bias, y, pre_activation,
                               x_NI.size(0), out, in, triton_number(activation), bias.defined(), keeps,
                               /*add=*/0);
  return {y, saves_output(activation) ? y : pre_activation};
}

LinearOp::Gradient linear_backward_triton(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool has_bias,
                                          const Tensor& pre_activation, Activation activation,
                                          const LinearOp::GradientDestinations& targets) {
  const int64_t in = weight.size(1), out = weight.size(0);
  const auto [grad_NO, partials] = gradient_pass(grad_y, pre_activation, has_bias, activation);
  LinearOp::Gradient result;
  if (targets.x) {
    result.x = at::empty(x.sizes(), x.options());
    launch_linear_input_gradient_triton(grad_NO, weight.contiguous(), /*bias=*/{}, result.x, /*pre_activation=*/{},
                                        grad_NO.size(0), in, out, /*kind=*/0, /*has_bias=*/0,
                                        /*keeps_pre_activation=*/0, /*add=*/0);
  }
  result.weight = weight_gradient(grad_NO, x.reshape({-1, in}).contiguous(), targets.weight);
  if (has_bias) result.bias = sum_partials(partials, x, targets.bias);
  return result;
}

}  // namespace strata::kernels
