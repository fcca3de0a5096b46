// SPDX-License-Identifier: MIT
// The table of sum_of_squares and its checks of arguments, and the levels that have no file of their own. Level aten of
// sum_of_squares: one norm in fp64 for each tensor. LibTorch copies the whole tensor to fp64 for it.
#include "kernels/sum_of_squares/sum_of_squares.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"
#include "kernels/sum_of_squares/sum_of_squares_formula.h"
#include "kernels/sum_of_squares/sum_of_squares_shape.h"

namespace strata::kernels {
namespace {

// The copy takes 8 bytes for each element. They were counted in fp32 and bf16, on CPUs and on an H100.
Tensor sum_of_squares_forward_aten(const std::vector<Tensor>& gradients) {
  Tensor total = at::zeros({}, gradients[0].options().dtype(at::kDouble));
  for (const Tensor& gradient : gradients) {
    const Tensor norm = at::linalg_vector_norm(gradient, 2, /*dim=*/{}, /*keepdim=*/false, at::kDouble);
    total.addcmul_(norm, norm);
    if (gradient.is_meta()) traced_workspace(8 * gradient.numel());
  }
  return total.to(gradients[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

Tensor sum_of_squares_forward_torchscript(const std::vector<Tensor>& gradients) {
  static const Formula formula(kFormula, "sum_of_squares");
  return formula(gradients);
}

Tensor sum_of_squares_forward_aot_inductor(const std::vector<Tensor>& gradients) {
  static const AotFunction function(SumOfSquaresOp::kName, kFormula, "add_squares", AotWidths::lanes);
  Tensor total = at::zeros({}, gradients[0].options().dtype(at::kDouble));
  for (const Tensor& gradient : gradients) {
    const Tensor lanes = as_lanes(gradient);
    total = function(gradient.scalar_type(), {{'c', lanes.size(1)}}, {total, lanes})[0];
  }
  return total.to(gradients[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace

constinit const KernelTable<SumOfSquaresOp> SumOfSquaresOp::kKernels = {
    .aten = {sum_of_squares_forward_aten, nullptr},
    .torchscript = {sum_of_squares_forward_torchscript, nullptr},
    .aot_inductor = {sum_of_squares_forward_aot_inductor, nullptr},
    .triton = {sum_of_squares_forward_triton, nullptr},
    .cuda = {sum_of_squares_forward_cuda, nullptr},
};

Tensor sum_of_squares(const std::vector<Tensor>& gradients, Level level) {
  constexpr auto op = SumOfSquaresOp::kName;
  require(!gradients.empty(), op, level, "no gradients, expected at least one");
  const Kernel<SumOfSquaresOp>& kernel = SumOfSquaresOp::kKernels.at(level, gradients[0].device());
  for (const Tensor& gradient : gradients)
    require_same_kind(op, level, "gradient 0", gradients[0], "another", gradient);
  const at::NoGradGuard no_grad;
  const CallScope scope(op, level, gradients[0], [&] {
    int64_t elements = 0;
    for (const Tensor& gradient : gradients) elements += gradient.numel();
    return SumOfSquaresShape{.elements = elements};
  });
  return kernel.forward(gradients);
}

}  // namespace strata::kernels
