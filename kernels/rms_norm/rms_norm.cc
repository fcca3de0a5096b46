// SPDX-License-Identifier: MIT
// N rows, D width
#include "kernels/rms_norm/rms_norm.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/rms_norm/rms_norm_formula.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

at::ScalarType wide_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// ATen has a fused kernel on GPUs only. Its rms_norm on CPUs is composed of six passes; this one needs three.
RmsNormOp::Output rms_norm_forward_aten(const Tensor& x, const Tensor& weight, double eps) {
  if (on_gpu(x)) {
    auto [y, rstd] = at::_fused_rms_norm(x, weight.sizes(), weight, eps);
    return {y, rstd};
  }
  const Tensor wide = x.to(wide_type(x));
  const Tensor norm = at::linalg_vector_norm(wide, 2, -1, /*keepdim=*/true);
  const Tensor rstd = norm.mul_(norm).div_(x.size(-1)).add_(eps).rsqrt_();
  return {at::mul(wide, rstd).mul_(weight).to(x.scalar_type()), rstd};
}

// grad_x = rstd * (g - x * rstd^2 * mean(g * x)) with g = grad_y * weight; both reductions are matrix-vector products.
RmsNormOp::Gradient rms_norm_backward_aten(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, const WeightGradient& into) {
  if (on_gpu(x)) {
    auto [grad_x, grad_weight] =
        at::_fused_rms_norm_backward(grad_y, x, weight.sizes(), rstd, weight, /*output_mask=*/{true, true});
    return {grad_x, deliver(grad_weight, into)};
  }
  const int64_t width = x.size(-1);
  const Tensor x_ND = x.reshape({-1, width}).to(wide_type(x));
  const Tensor grad_ND = grad_y.reshape({-1, width}).to(wide_type(x));
  const Tensor wide_weight = weight.to(wide_type(x));
  const Tensor rstd_N = rstd.reshape({-1});
  const Tensor product_ND = at::mul(grad_ND, x_ND);
  const Tensor factor_N = at::mv(product_ND, wide_weight).mul_(rstd_N).mul_(rstd_N).mul_(rstd_N).div_(-width);
  const Tensor grad_weight = at::mv(product_ND.t(), rstd_N);
  const Tensor grad_x = at::mul(grad_ND, wide_weight).mul_(rstd_N.unsqueeze(1)).addcmul_(x_ND, factor_N.unsqueeze(1));
  return {grad_x.to(x.scalar_type()).view(x.sizes()), deliver(grad_weight.to(weight.scalar_type()), into)};
}

AddRmsNormOp::Output add_rms_norm_forward_aten(const Tensor& residual, const Tensor& branch, const Tensor& weight,
                                               double eps) {
  const Tensor sum = at::add(residual, branch);
  const auto [y, rstd] = rms_norm_forward_aten(sum, weight, eps);
  return {y, sum, rstd};
}

AddRmsNormOp::Gradient add_rms_norm_backward_aten(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& sum,
                                                  const Tensor& weight, const Tensor& rstd,
                                                  const WeightGradient& into) {
  auto [grad_x, grad_weight] = rms_norm_backward_aten(grad_y, sum, weight, rstd, into);
  if (grad_sum.defined()) grad_x.add_(grad_sum);
  return {grad_x, grad_weight};
}

RmsNormOp::Output rms_norm_forward_torchscript(const Tensor& x, const Tensor& weight, double eps) {
  static const Formula formula(kFormula, "rms_norm");
  return {formula(x, weight, eps), {}};
}

AddRmsNormOp::Output add_rms_norm_forward_torchscript(const Tensor& residual, const Tensor& branch,
                                                      const Tensor& weight, double eps) {
  static const Formula formula(kFormula, "add_rms_norm");
  const std::vector<Tensor> outputs = formula.tuple(residual, branch, weight, eps);
  return {outputs[0], outputs[1], {}};
}

RmsNormOp::Output rms_norm_forward_aot_inductor(const Tensor& x, const Tensor& weight, double eps) {
  static const AotFunction function(RmsNormOp::kName, kFormula, "rms_norm_forward");
  const auto outputs = function(x.scalar_type(), {{'d', x.size(-1)}}, {as_rows(x), weight, host_number(eps)});
  return {outputs[0].view(x.sizes()), outputs[1]};
}

RmsNormOp::Gradient rms_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                   const Tensor& rstd, const WeightGradient& into) {
  static const AotFunction function(RmsNormOp::kName, kFormula, "rms_norm_backward");
  const auto gradients =
      function(x.scalar_type(), {{'d', x.size(-1)}}, {as_rows(grad_y), as_rows(x), weight, as_rows(rstd)});
  return {gradients[0].view(x.sizes()), deliver_wide(gradients[1], weight, into)};
}

AddRmsNormOp::Output add_rms_norm_forward_aot_inductor(const Tensor& residual, const Tensor& branch,
                                                       const Tensor& weight, double eps) {
  static const AotFunction function(RmsNormOp::kName, kFormula, "add_rms_norm_forward");
  const auto outputs = function(residual.scalar_type(), {{'d', residual.size(-1)}},
                                {as_rows(residual), as_rows(branch), weight, host_number(eps)});
  return {outputs[0].view(residual.sizes()), outputs[1].view(residual.sizes()), outputs[2]};
}

// Without grad_sum this is the backward of rms_norm.
AddRmsNormOp::Gradient add_rms_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& grad_sum,
                                                          const Tensor& sum, const Tensor& weight, const Tensor& rstd,
                                                          const WeightGradient& into) {
  if (!grad_sum.defined()) {
    auto [grad_x, grad_weight] = rms_norm_backward_aot_inductor(grad_y, sum, weight, rstd, into);
    return {grad_x, grad_weight};
  }
  static const AotFunction function(RmsNormOp::kName, kFormula, "add_rms_norm_backward");
  const auto gradients = function(sum.scalar_type(), {{'d', sum.size(-1)}},
                                  {as_rows(grad_y), as_rows(grad_sum), as_rows(sum), weight, as_rows(rstd)});
  return {gradients[0].view(sum.sizes()), deliver_wide(gradients[1], weight, into)};
}

}  // namespace

constinit const KernelTable<RmsNormOp> RmsNormOp::kKernels = {
    .aten = {rms_norm_forward_aten, rms_norm_backward_aten},
    .torchscript = {rms_norm_forward_torchscript, nullptr},
    .aot_inductor = {rms_norm_forward_aot_inductor, rms_norm_backward_aot_inductor},
    .triton = {rms_norm_forward_triton, rms_norm_backward_triton},
    .cuda = {rms_norm_forward_cuda, rms_norm_backward_cuda},
};

constinit const KernelTable<AddRmsNormOp> AddRmsNormOp::kKernels = {
    .aten = {add_rms_norm_forward_aten, add_rms_norm_backward_aten},
    .torchscript = {add_rms_norm_forward_torchscript, nullptr},
    .aot_inductor = {add_rms_norm_forward_aot_inductor, add_rms_norm_backward_aot_inductor},
    .triton = {add_rms_norm_forward_triton, add_rms_norm_backward_triton},
    .cuda = {add_rms_norm_forward_cuda, add_rms_norm_backward_cuda},
};

namespace {

RmsNormShape shape_of(const Tensor& x, bool adds) {
  return {.rows = row_count(x), .width = row_width(x), .adds = adds};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps, Level level) {
    const CallScope scope(RmsNormOp::kName, level, x, [&] { return shape_of(x, /*adds=*/false); });
    const auto [y, rstd] = RmsNormOp::kKernels.slot(level).forward(x, weight, eps);
    context->save_for_backward({x, weight, rstd});
    context->saved_data["level"] = static_cast<int64_t>(level);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto level = static_cast<Level>(context->saved_data["level"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    const CallScope scope(RmsNormOp::kName, level, kBackward, x, [&] { return shape_of(x, /*adds=*/false); });
    const auto gradient =
        RmsNormOp::kKernels.slot(level).backward(gradients[0], x, weight, rstd, claim_weight_gradient(weight));
    return {gradient.x, gradient.weight, Tensor(), Tensor()};
  }
};

struct AddRmsNormFunction : torch::autograd::Function<AddRmsNormFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& residual, const Tensor& branch,
                               const Tensor& weight, double eps, Level level) {
    const CallScope scope(AddRmsNormOp::kName, level, residual, [&] { return shape_of(residual, /*adds=*/true); });
    const auto [y, sum, rstd] = AddRmsNormOp::kKernels.slot(level).forward(residual, branch, weight, eps);
    context->save_for_backward({sum, weight, rstd});
    context->saved_data["level"] = static_cast<int64_t>(level);
    context->set_materialize_grads(false);  // an unused sum gets no gradient of zeros
    return {y, sum};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto level = static_cast<Level>(context->saved_data["level"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &weight = saved[1], &rstd = saved[2];
    if (!gradients[0].defined()) return {gradients[1], gradients[1], Tensor(), Tensor(), Tensor()};  // y was not used
    const CallScope scope(AddRmsNormOp::kName, level, kBackward, sum, [&] { return shape_of(sum, /*adds=*/true); });
    const auto gradient = AddRmsNormOp::kKernels.slot(level).backward(gradients[0], gradients[1], sum, weight, rstd,
                                                                      claim_weight_gradient(weight));
    return {gradient.sum, gradient.sum, gradient.weight, Tensor(), Tensor()};
  }
};

void check(std::string_view op, const Tensor& x, const Tensor& weight, Level level) {
  require(x.dim() >= 1 && x.size(-1) > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, level, "x is ",
          x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., D] and weight [D]");
  require_same_kind(op, level, "x", x, "weight", weight);
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Level level) {
  const Kernel<RmsNormOp>& kernel = RmsNormOp::kKernels.at(level, x.device());
  check(RmsNormOp::kName, x, weight, level);
  if (kernel.backward != nullptr) return RmsNormFunction::apply(x, weight, eps, level);
  const CallScope scope(RmsNormOp::kName, level, x, [&] { return shape_of(x, /*adds=*/false); });
  return kernel.forward(x, deliver_weight_gradient(weight), eps).y;
}

NormedSum add_rms_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, double eps, Level level) {
  constexpr auto op = AddRmsNormOp::kName;
  const Kernel<AddRmsNormOp>& kernel = AddRmsNormOp::kKernels.at(level, residual.device());
  require_alike(op, level, "residual", residual, "branch", branch);
  check(op, residual, weight, level);
  if (kernel.backward != nullptr) {
    const variable_list outputs = AddRmsNormFunction::apply(residual, branch, weight, eps, level);
    return {outputs[0], outputs[1]};
  }
  const CallScope scope(op, level, residual, [&] { return shape_of(residual, /*adds=*/true); });
  const auto output = kernel.forward(residual, branch, deliver_weight_gradient(weight), eps);
  return {output.y, output.sum};
}

}  // namespace strata::kernels
