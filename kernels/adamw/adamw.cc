// SPDX-License-Identifier: MIT
// The table of adamw and its checks of arguments, and the levels that have no file of their own. Level aten of adamw:
// LibTorch's fused kernel. The gradient is scaled in a pass before it, because the kernel would write the scaled
// gradient back, and the compute copy is a pass after it.
#include "kernels/adamw/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include "kernels/adamw/adamw_formula.h"
#include "kernels/adamw/adamw_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

void adamw_forward_aten(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                        Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options) {
  const Tensor scaled = at::mul(gradient.to(master.scalar_type()), scalars.gradient_scale);
  at::_fused_adamw_({master}, {scaled}, {first_moment}, {second_moment}, /*max_exp_avg_sqs=*/{}, {scalars.step},
                    scalars.learning_rate, options.beta1, options.beta2, options.weight_decay, options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, scalars.skip.ne(0).to(at::kFloat));
  if (compute_copy.defined()) compute_copy.copy_(master);
}

void adamw_forward_torchscript(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                               Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options) {
  static const Formula formula(kFormula, "adamw");
  const std::vector<Tensor> updated = formula.tuple(
      master, first_moment, second_moment, gradient, scalars.learning_rate, scalars.step, scalars.gradient_scale,
      scalars.skip, options.beta1, options.beta2, options.epsilon, options.weight_decay);
  master.copy_(updated[0]);
  first_moment.copy_(updated[1]);
  second_moment.copy_(updated[2]);
  if (compute_copy.defined()) compute_copy.copy_(master);
}

// A package returns the new state, which is copied to the old one. This moves 24 more bytes per parameter than an
// update in place.
void adamw_forward_aot_inductor(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                                Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options) {
  static const AotFunction function(AdamwOp::kName, kFormula, "adamw", AotWidths::lanes);
  const auto option = [](double value) { return at::scalar_tensor(value, at::kDouble); };
  const Tensor lanes = as_lanes(gradient);
  if (lanes.is_meta()) return traced_workspace(3 * static_cast<int64_t>(master.nbytes()));  // what the package returns
  const auto updated =
      function(gradient.scalar_type(), {{'c', lanes.size(1)}},
               {as_lanes(master), as_lanes(first_moment), as_lanes(second_moment), lanes, scalars.learning_rate,
                scalars.step, scalars.gradient_scale, scalars.skip, option(options.beta1), option(options.beta2),
                option(options.epsilon), option(options.weight_decay)});
  master.copy_(updated[0].view(master.sizes()));
  first_moment.copy_(updated[1].view(master.sizes()));
  second_moment.copy_(updated[2].view(master.sizes()));
  if (compute_copy.defined()) compute_copy.copy_(master);
}

AdamwShape shape_of(const Tensor& master, const Tensor& gradient, const Tensor& compute_copy) {
  return {.elements = master.numel(),
          .gradient_bytes = static_cast<double>(gradient.element_size()),
          .copy_bytes = compute_copy.defined() ? static_cast<double>(compute_copy.element_size()) : 0};
}

}  // namespace

constinit const KernelTable<AdamwOp> AdamwOp::kKernels = {
    .aten = {adamw_forward_aten, nullptr},
    .torchscript = {adamw_forward_torchscript, nullptr},
    .aot_inductor = {adamw_forward_aot_inductor, nullptr, TracedKernel::own},
    .triton = {adamw_forward_triton, nullptr},
    .cuda = {adamw_forward_cuda, nullptr},
};

void adamw(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient, Tensor& compute_copy,
           const UpdateScalars& scalars, const AdamwOptions& options, Level level) {
  const Kernel<AdamwOp>& kernel = AdamwOp::kKernels.at(level, master.device());
  check_update(AdamwOp::kName, level, master, {{"first_moment", first_moment}, {"second_moment", second_moment}},
               gradient, compute_copy, scalars);
  const at::NoGradGuard no_grad;
  const CallScope scope(AdamwOp::kName, level, master, [&] { return shape_of(master, gradient, compute_copy); });
  kernel.forward(master, first_moment, second_moment, gradient, compute_copy, scalars, options);
}

}  // namespace strata::kernels
