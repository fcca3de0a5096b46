// SPDX-License-Identifier: MIT
#include "kernels/layer_norm/layer_norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <type_traits>

#include "kernels/layer_norm/layer_norm_formula.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

LayerNormOp::Output layer_norm_forward_aten(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  auto [y, mean, rstd] = at::native_layer_norm(x, weight.sizes(), weight, bias, eps);
  return {y, mean, rstd};
}

LayerNormOp::Gradient layer_norm_backward_aten(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                               const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                               const LayerNormOp::GradientTargets& targets) {
  auto [grad_x, grad_weight, grad_bias] = at::native_layer_norm_backward(
      grad_y, x, weight.sizes(), mean, rstd, weight, bias, /*output_mask=*/{true, true, bias.defined()});
  LayerNormOp::Gradient gradient{grad_x, deliver(grad_weight, targets.weight), {}};
  if (bias.defined()) gradient.bias = deliver(grad_bias, targets.bias);
  return gradient;
}

AddLayerNormOp::Output add_layer_norm_forward_aten(const Tensor& residual, const Tensor& branch, const Tensor& weight,
                                                   const Tensor& bias, double eps) {
  const Tensor sum = at::add(residual, branch);
  const auto [y, mean, rstd] = layer_norm_forward_aten(sum, weight, bias, eps);
  return {y, sum, mean, rstd};
}

AddLayerNormOp::Gradient add_layer_norm_backward_aten(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& sum,
                                                      const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                      const Tensor& rstd, const LayerNormOp::GradientTargets& targets) {
  const auto gradient = layer_norm_backward_aten(grad_y, sum, weight, bias, mean, rstd, targets);
  if (grad_sum.defined()) gradient.x.add_(grad_sum);
  return {gradient.x, gradient.weight, gradient.bias};
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_aten(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                      double eps) {
  const auto [affine, mean, rstd] = layer_norm_forward_aten(x, weight, bias, eps);
  return {at::gelu(affine, "tanh"), mean, rstd};
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_aten(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                         const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                                         const LayerNormOp::GradientTargets& targets) {
  const Tensor normalized = at::sub(x, mean).mul_(rstd);
  Tensor affine = at::mul(normalized, weight);
  if (bias.defined()) affine.add_(bias);
  const Tensor grad_affine = at::gelu_backward(grad_y, affine.to(x.scalar_type()), "tanh");
  return layer_norm_backward_aten(grad_affine, x, weight, bias, mean, rstd, targets);
}

LayerNormOp::Output layer_norm_forward_torchscript(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                   double eps) {
  static const Formula formula(kFormula, "layer_norm");
  return {formula(x, weight, bias, eps), {}, {}};
}

AddLayerNormOp::Output add_layer_norm_forward_torchscript(const Tensor& residual, const Tensor& branch,
                                                          const Tensor& weight, const Tensor& bias, double eps) {
  static const Formula formula(kFormula, "add_layer_norm");
  const std::vector<Tensor> outputs = formula.tuple(residual, branch, weight, bias, eps);
  return {outputs[0], outputs[1], {}, {}};
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_torchscript(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                             double eps) {
  static const Formula formula(kFormula, "layer_norm_gelu_tanh");
  return {formula(x, weight, bias, eps), {}, {}};
}

// Packages take no undefined tensors. Zeros in place of the bias change no result.
Tensor or_zeros(const Tensor& bias, const Tensor& weight) { return bias.defined() ? bias : at::zeros_like(weight); }

std::vector<AotWidth> width_of(const Tensor& weight) { return {{'d', weight.size(0)}}; }

// `gradients` holds those of x, weight and bias. An undefined bias gets no gradient.
LayerNormOp::Gradient delivered(const std::vector<Tensor>& gradients, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, const LayerNormOp::GradientTargets& targets) {
  return {gradients[0].view(x.sizes()), deliver_wide(gradients[1], weight, targets.weight),
          bias.defined() ? deliver_wide(gradients[2], bias, targets.bias) : Tensor()};
}

LayerNormOp::Output layer_norm_forward_aot_inductor(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                    double eps) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_forward");
  const auto outputs =
      function(x.scalar_type(), width_of(weight), {as_rows(x), weight, or_zeros(bias, weight), host_number(eps)});
  return {outputs[0].view(x.sizes()), outputs[1], outputs[2]};
}

LayerNormOp::Gradient layer_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                       const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                                       const LayerNormOp::GradientTargets& targets) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_backward");
  const auto gradients = function(x.scalar_type(), width_of(weight), {as_rows(grad_y), as_rows(x), weight, mean, rstd});
  return delivered(gradients, x, weight, bias, targets);
}

AddLayerNormOp::Output add_layer_norm_forward_aot_inductor(const Tensor& residual, const Tensor& branch,
                                                           const Tensor& weight, const Tensor& bias, double eps) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "add_layer_norm_forward");
  const auto outputs = function(residual.scalar_type(), width_of(weight),
                                {as_rows(residual), as_rows(branch), weight, or_zeros(bias, weight), host_number(eps)});
  return {outputs[0].view(residual.sizes()), outputs[1].view(residual.sizes()), outputs[2], outputs[3]};
}

// Without grad_sum this is the backward of layer_norm.
AddLayerNormOp::Gradient add_layer_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& grad_sum,
                                                              const Tensor& sum, const Tensor& weight,
                                                              const Tensor& bias, const Tensor& mean,
                                                              const Tensor& rstd,
                                                              const LayerNormOp::GradientTargets& targets) {
  if (!grad_sum.defined()) {
    const auto gradient = layer_norm_backward_aot_inductor(grad_y, sum, weight, bias, mean, rstd, targets);
    return {gradient.x, gradient.weight, gradient.bias};
  }
  static const AotFunction function(LayerNormOp::kName, kFormula, "add_layer_norm_backward");
  const auto gradients = function(sum.scalar_type(), width_of(weight),
                                  {as_rows(grad_y), as_rows(grad_sum), as_rows(sum), weight, mean, rstd});
  const auto gradient = delivered(gradients, sum, weight, bias, targets);
  return {gradient.x, gradient.weight, gradient.bias};
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_aot_inductor(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                              double eps) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_gelu_tanh_forward");
  const auto outputs =
      function(x.scalar_type(), width_of(weight), {as_rows(x), weight, or_zeros(bias, weight), host_number(eps)});
  return {outputs[0].view(x.sizes()), outputs[1], outputs[2]};
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_aot_inductor(const Tensor& grad_y, const Tensor& x,
                                                                 const Tensor& weight, const Tensor& bias,
                                                                 const Tensor& mean, const Tensor& rstd,
                                                                 const LayerNormOp::GradientTargets& targets) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_gelu_tanh_backward");
  const auto gradients = function(x.scalar_type(), width_of(weight),
                                  {as_rows(grad_y), as_rows(x), weight, or_zeros(bias, weight), mean, rstd});
  return delivered(gradients, x, weight, bias, targets);
}

}  // namespace

constinit const KernelTable<LayerNormOp> LayerNormOp::kKernels = {
    .aten = {layer_norm_forward_aten, layer_norm_backward_aten},
    .torchscript = {layer_norm_forward_torchscript, nullptr},
    .aot_inductor = {layer_norm_forward_aot_inductor, layer_norm_backward_aot_inductor},
    .triton = {layer_norm_forward_triton, layer_norm_backward_triton},
    .cuda = {layer_norm_forward_cuda, layer_norm_backward_cuda},
};

constinit const KernelTable<AddLayerNormOp> AddLayerNormOp::kKernels = {
    .aten = {add_layer_norm_forward_aten, add_layer_norm_backward_aten},
    .torchscript = {add_layer_norm_forward_torchscript, nullptr},
    .aot_inductor = {add_layer_norm_forward_aot_inductor, add_layer_norm_backward_aot_inductor},
    .triton = {add_layer_norm_forward_triton, add_layer_norm_backward_triton},
    .cuda = {add_layer_norm_forward_cuda, add_layer_norm_backward_cuda},
};

constinit const KernelTable<LayerNormGeluTanhOp> LayerNormGeluTanhOp::kKernels = {
    .aten = {layer_norm_gelu_tanh_forward_aten, layer_norm_gelu_tanh_backward_aten},
    .torchscript = {layer_norm_gelu_tanh_forward_torchscript, nullptr},
    .aot_inductor = {layer_norm_gelu_tanh_forward_aot_inductor, layer_norm_gelu_tanh_backward_aot_inductor},
    .triton = {layer_norm_gelu_tanh_forward_triton, layer_norm_gelu_tanh_backward_triton},
    .cuda = {layer_norm_gelu_tanh_forward_cuda, layer_norm_gelu_tanh_backward_cuda},
};

namespace {

template <class Op>
LayerNormShape shape_of(const Tensor& x, const Tensor& bias) {
  return {.rows = row_count(x),
          .width = row_width(x),
          .bias = bias.defined(),
          .adds = std::is_same_v<Op, AddLayerNormOp>,
          .gelu_tanh = std::is_same_v<Op, LayerNormGeluTanhOp>};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Op is LayerNormOp or LayerNormGeluTanhOp.
template <class Op>
struct LayerNormFunction : torch::autograd::Function<LayerNormFunction<Op>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, double eps, Level level) {
    const Tensor bias = given_bias.value_or(Tensor());
    const CallScope scope(Op::kName, level, x, [&] { return shape_of<Op>(x, bias); });
    const auto [y, mean, rstd] = Op::kKernels.slot(level).forward(x, weight, bias, eps);
    context->save_for_backward({x, weight, bias, mean, rstd});
    context->saved_data["level"] = static_cast<int64_t>(level);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto level = static_cast<Level>(context->saved_data["level"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3], &rstd = saved[4];
    const CallScope scope(Op::kName, level, kBackward, x, [&] { return shape_of<Op>(x, bias); });
    const auto gradient = Op::kKernels.slot(level).backward(
        gradients[0], x, weight, bias, mean, rstd, {claim_weight_gradient(weight), claim_weight_gradient(bias)});
    return {gradient.x, gradient.weight, gradient.bias, Tensor(), Tensor()};
  }
};

struct AddLayerNormFunction : torch::autograd::Function<AddLayerNormFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& residual, const Tensor& branch,
                               const Tensor& weight, const std::optional<Tensor>& given_bias, double eps, Level level) {
    const Tensor bias = given_bias.value_or(Tensor());
    const CallScope scope(AddLayerNormOp::kName, level, residual,
                          [&] { return shape_of<AddLayerNormOp>(residual, bias); });
    const auto [y, sum, mean, rstd] = AddLayerNormOp::kKernels.slot(level).forward(residual, branch, weight, bias, eps);
    context->save_for_backward({sum, weight, bias, mean, rstd});
    context->saved_data["level"] = static_cast<int64_t>(level);
    context->set_materialize_grads(false);  // an unused sum gets no gradient of zeros
    return {y, sum};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto level = static_cast<Level>(context->saved_data["level"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3], &rstd = saved[4];
    if (!gradients[0].defined()) {  // y was not used
      return {gradients[1], gradients[1], Tensor(), Tensor(), Tensor(), Tensor()};
    }
    const CallScope scope(AddLayerNormOp::kName, level, kBackward, sum,
                          [&] { return shape_of<AddLayerNormOp>(sum, bias); });
    const auto gradient =
        AddLayerNormOp::kKernels.slot(level).backward(gradients[0], gradients[1], sum, weight, bias, mean, rstd,
                                                      {claim_weight_gradient(weight), claim_weight_gradient(bias)});
    return {gradient.sum, gradient.sum, gradient.weight, gradient.bias, Tensor(), Tensor()};
  }
};

void check(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  require(x.dim() >= 1 && x.size(-1) > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, level, "x is ",
          x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., D] and weight [D]");
  require_same_kind(op, level, "x", x, "weight", weight);
  if (bias.defined()) require_alike(op, level, "weight", weight, "bias", bias);
}

template <class Op>
Tensor normed(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level) {
  const Kernel<Op>& kernel = Op::kKernels.at(level, x.device());
  check(Op::kName, x, weight, bias, level);
  if (kernel.backward != nullptr) return LayerNormFunction<Op>::apply(x, weight, if_defined(bias), eps, level);
  const CallScope scope(Op::kName, level, x, [&] { return shape_of<Op>(x, bias); });
  return kernel.forward(x, deliver_weight_gradient(weight), deliver_weight_gradient(bias), eps).y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level) {
  return normed<LayerNormOp>(x, weight, bias, eps, level);
}

Tensor layer_norm_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level) {
  return normed<LayerNormGeluTanhOp>(x, weight, bias, eps, level);
}

NormedSum add_layer_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                         double eps, Level level) {
  constexpr auto op = AddLayerNormOp::kName;
  const Kernel<AddLayerNormOp>& kernel = AddLayerNormOp::kKernels.at(level, residual.device());
  require_alike(op, level, "residual", residual, "branch", branch);
  check(op, residual, weight, bias, level);
  if (kernel.backward != nullptr) {
    const variable_list outputs = AddLayerNormFunction::apply(residual, branch, weight, if_defined(bias), eps, level);
    return {outputs[0], outputs[1]};
  }
  const CallScope scope(op, level, residual, [&] { return shape_of<AddLayerNormOp>(residual, bias); });
  const auto output =
      kernel.forward(residual, branch, deliver_weight_gradient(weight), deliver_weight_gradient(bias), eps);
  return {output.y, output.sum};
}

}  // namespace strata::kernels
