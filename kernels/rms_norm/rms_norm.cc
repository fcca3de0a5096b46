// SPDX-License-Identifier: MIT
// The table of rms_norm, its autograd and its checks of arguments, and the levels that have no file of their own. Level
// aten of rms_norm and add_rms_norm: LibTorch's fused kernel on GPUs. On CPUs it takes three passes of LibTorch's
// operators over fp32 copies, or loops in a step of generation. The addition before it is a pass of its own.
// N rows, D width
#include "kernels/rms_norm/rms_norm.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>

#include <type_traits>

#include "kernels/rms_norm/rms_norm_formula.h"
#include "kernels/rms_norm/rms_norm_loops.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

at::ScalarType wide_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// ATen has a fused kernel on GPUs only. Its rms_norm on CPUs is composed of six passes; this one needs three.
RmsNormOp::Output rms_norm_forward_aten(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps) {
  if (has_rms_norm_loops(x)) return rms_norm_by_loops(x, branch, weight, eps);
  const Tensor sum = branch.defined() ? at::add(x, branch) : Tensor();
  const Tensor& input = branch.defined() ? sum : x;
  if (on_gpu(input)) {
    auto [y, rstd] = at::_fused_rms_norm(input, weight.sizes(), weight, eps);
    return {y, sum, rstd};
  }
  const Tensor wide = input.to(wide_type(input));
  const Tensor norm = at::linalg_vector_norm(wide, 2, -1, /*keepdim=*/true);
  const Tensor rstd = norm.mul_(norm).div_(input.size(-1)).add_(eps).rsqrt_();
  return {at::mul(wide, rstd).mul_(weight).to(input.scalar_type()), sum, rstd};
}

// grad_x = rstd * (g - x * rstd^2 * mean(g * x)) with g = grad_y * weight; both reductions are matrix-vector products.
RmsNormOp::Gradient rms_norm_backward_aten(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                           const Tensor& weight, const Tensor& rstd, const GradientDestination& into) {
  if (on_gpu(x)) {
    auto [grad_x, grad_weight] =
        at::_fused_rms_norm_backward(grad_y, x, weight.sizes(), rstd, weight, /*output_mask=*/{true, true});
    if (grad_sum.defined()) grad_x.add_(grad_sum);
    return {grad_x, accumulate(grad_weight, into)};
  }
  const int64_t width = x.size(-1);
  const Tensor x_ND = x.reshape({-1, width}).to(wide_type(x));
  const Tensor grad_ND = grad_y.reshape({-1, width}).to(wide_type(x));
  const Tensor wide_weight = weight.to(wide_type(x));
  const Tensor rstd_N = rstd.reshape({-1});
  const Tensor product_ND = at::mul(grad_ND, x_ND);
  const Tensor factor_N = at::mv(product_ND, wide_weight).mul_(rstd_N).mul_(rstd_N).mul_(rstd_N).div_(-width);
  const Tensor grad_weight = at::mv(product_ND.t(), rstd_N);
  const Tensor wide_grad_x =
      at::mul(grad_ND, wide_weight).mul_(rstd_N.unsqueeze(1)).addcmul_(x_ND, factor_N.unsqueeze(1));
  const Tensor grad_x = wide_grad_x.to(x.scalar_type()).view(x.sizes());
  if (grad_sum.defined()) grad_x.add_(grad_sum);
  return {grad_x, accumulate(grad_weight.to(weight.scalar_type()), into)};
}

RmsNormOp::Output rms_norm_forward_torchscript(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                               double eps) {
  if (!branch.defined()) {
    static const Formula formula(kFormula, "rms_norm");
    return {formula(x, weight, eps), {}, {}};
  }
  static const Formula formula(kFormula, "add_rms_norm");
  const std::vector<Tensor> outputs = formula.tuple(x, branch, weight, eps);
  return {outputs[0], outputs[1], {}};
}

RmsNormOp::Output rms_norm_forward_aot_inductor(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                double eps) {
  static const AotFunction plain(RmsNormOp::kName, kFormula, "rms_norm_forward");
  static const AotFunction adds(RmsNormOp::kName, kFormula, "add_rms_norm_forward");
  const std::vector<AotWidth> widths = {{'d', x.size(-1)}};
  if (!branch.defined()) {
    const auto outputs = plain(x.scalar_type(), widths, {as_rows(x), weight, host_number(eps)});
    return {outputs[0].view(x.sizes()), {}, outputs[1]};
  }
  const auto outputs = adds(x.scalar_type(), widths, {as_rows(x), as_rows(branch), weight, host_number(eps)});
  return {outputs[0].view(x.sizes()), outputs[1].view(x.sizes()), outputs[2]};
}

RmsNormOp::Gradient rms_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                                   const Tensor& weight, const Tensor& rstd,
                                                   const GradientDestination& into) {
  static const AotFunction plain(RmsNormOp::kName, kFormula, "rms_norm_backward");
  static const AotFunction adds(RmsNormOp::kName, kFormula, "add_rms_norm_backward");
  std::vector<Tensor> inputs = {as_rows(grad_y), as_rows(x), weight, as_rows(rstd)};
  if (grad_sum.defined()) inputs.insert(inputs.begin() + 1, as_rows(grad_sum));
  const AotFunction& function = grad_sum.defined() ? adds : plain;
  const auto gradients = function(x.scalar_type(), {{'d', x.size(-1)}}, std::move(inputs));
  return {gradients[0].view(x.sizes()), accumulate_wide(gradients[1], weight, into)};
}

// rms_norm and add_rms_norm share these kernels, which add the branch if it is defined.
template <class Op>
constexpr KernelTable<Op> kTable = {
    .aten = {rms_norm_forward_aten, rms_norm_backward_aten},
    .torchscript = {rms_norm_forward_torchscript, nullptr},
    .aot_inductor = {rms_norm_forward_aot_inductor, rms_norm_backward_aot_inductor},
    .triton = {rms_norm_forward_triton, rms_norm_backward_triton},
    .cuda = {rms_norm_forward_cuda, rms_norm_backward_cuda},
};

template <class Op>
constexpr bool kAdds = std::is_same_v<Op, AddRmsNormOp>;

template <class Op>
RmsNormShape shape_of(const Tensor& x) {
  return {.rows = row_count(x), .width = row_width(x), .adds = kAdds<Op>};
}

// Op is RmsNormOp, which has no branch, or AddRmsNormOp.
template <class Op>
struct RmsNormFunction : Recorded<RmsNormFunction<Op>, Op> {
  // Returns {y}, or {y, sum} if there is a branch.
  static variable_list forward(AutogradContext* context, const Kernel<Op>& kernel, const Tensor& x,
                               const Tensor& branch, const Tensor& weight, double eps) {
    const auto [y, sum, rstd] = kernel.forward(x, branch, weight, eps);
    context->save_for_backward({kAdds<Op> ? sum : x, weight, rstd});
    if constexpr (!kAdds<Op>) return {y};
    context->set_materialize_grads(false);  // an unused sum gets no gradient of zeros
    return {y, sum};
  }
  static variable_list backward(AutogradContext* context, const Kernel<Op>& kernel, const variable_list& gradients,
                                double) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    const Tensor grad_sum = kAdds<Op> ? gradients[1] : Tensor();
    if (!gradients[0].defined()) return {grad_sum, grad_sum};  // y was not used
    const auto gradient = kernel.backward(gradients[0], grad_sum, x, weight, rstd, take_gradient_destination(weight));
    return {gradient.x, kAdds<Op> ? gradient.x : Tensor(), gradient.weight};
  }
};

void check(std::string_view op, const Tensor& x, const Tensor& weight, Level level) {
  require(x.dim() >= 1 && x.size(-1) > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, level, "x is ",
          x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., D] and weight [D]");
  require_same_kind(op, level, "x", x, "weight", weight);
}

template <class Op>
NormedSum normed(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps, Level level) {
  const Kernel<Op>& kernel = Op::kKernels.at(level, x.device());
  if constexpr (kAdds<Op>) require_alike(Op::kName, level, "residual", x, "branch", branch);
  check(Op::kName, x, weight, level);
  if (kernel.is_recorded()) {
    const variable_list outputs =
        RmsNormFunction<Op>::apply(level, shape_of<Op>(x), x, if_defined(branch), weight, eps);
    return {outputs.front(), kAdds<Op> ? outputs.back() : Tensor()};
  }
  const CallScope scope(Op::kName, level, x, [&] { return shape_of<Op>(x); });
  const auto output = kernel.forward(x, branch, with_gradient_destination(weight), eps);
  return {output.y, output.sum};
}

}  // namespace

constinit const KernelTable<RmsNormOp> RmsNormOp::kKernels = kTable<RmsNormOp>;
constinit const KernelTable<AddRmsNormOp> AddRmsNormOp::kKernels = kTable<AddRmsNormOp>;

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Level level) {
  return normed<RmsNormOp>(x, /*branch=*/{}, weight, eps, level).y;
}

NormedSum add_rms_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, double eps, Level level) {
  return normed<AddRmsNormOp>(residual, branch, weight, eps, level);
}

}  // namespace strata::kernels
