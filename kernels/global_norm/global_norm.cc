// SPDX-License-Identifier: MIT
// The table of global_norm and its checks of arguments, and the levels that have no file of their own. Level aten of
// global_norm: one norm in fp64 for each tensor. LibTorch copies the whole tensor to fp64 for it.
#include "kernels/global_norm/global_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "kernels/global_norm/global_norm_formula.h"
#include "kernels/global_norm/global_norm_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

// The copy takes 8 bytes for each element. They were counted in fp32 and bf16, on CPUs and on an H100.
Tensor global_norm_forward_aten(const std::vector<Tensor>& gradients) {
  Tensor total = at::zeros({}, gradients[0].options().dtype(at::kDouble));
  for (const Tensor& gradient : gradients) {
    const Tensor norm = at::linalg_vector_norm(gradient, 2, /*dim=*/{}, /*keepdim=*/false, at::kDouble);
    total.addcmul_(norm, norm);
    if (gradient.is_meta()) traced_workspace(8 * gradient.numel());
  }
  return total.to(gradients[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

Tensor global_norm_forward_torchscript(const std::vector<Tensor>& gradients) {
  static const Formula formula(kFormula, "global_norm");
  return formula(gradients);
}

Tensor global_norm_forward_aot_inductor(const std::vector<Tensor>& gradients) {
  static const AotFunction function(GlobalNormOp::kName, kFormula, "add_squares", AotWidths::lanes);
  Tensor total = at::zeros({}, gradients[0].options().dtype(at::kDouble));
  for (const Tensor& gradient : gradients) {
    const Tensor lanes = as_lanes(gradient);
    total = function(gradient.scalar_type(), {{'c', lanes.size(1)}}, {total, lanes})[0];
  }
  return total.to(gradients[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace

constinit const KernelTable<GlobalNormOp> GlobalNormOp::kKernels = {
    .aten = {global_norm_forward_aten, nullptr},
    .torchscript = {global_norm_forward_torchscript, nullptr},
    .aot_inductor = {global_norm_forward_aot_inductor, nullptr},
    .triton = {global_norm_forward_triton, nullptr},
    .cuda = {global_norm_forward_cuda, nullptr},
};

Tensor global_norm(const std::vector<Tensor>& gradients, Level level) {
  constexpr auto op = GlobalNormOp::kName;
  require(!gradients.empty(), op, level, "no gradients, expected at least one");
  const Kernel<GlobalNormOp>& kernel = GlobalNormOp::kKernels.at(level, gradients[0].device());
  for (const Tensor& gradient : gradients)
    require_same_kind(op, level, "gradient 0", gradients[0], "another", gradient);
  const at::NoGradGuard no_grad;
  const CallScope scope(op, level, gradients[0], [&] {
    int64_t elements = 0;
    for (const Tensor& gradient : gradients) elements += gradient.numel();
    return GlobalNormShape{.elements = elements};
  });
  return kernel.forward(gradients);
}

}  // namespace strata::kernels
