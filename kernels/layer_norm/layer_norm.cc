// SPDX-License-Identifier: MIT
// The table of layer_norm, its autograd and its checks of arguments, and the levels that have no file of their own.
// Level aten of layer_norm, add_layer_norm and layer_norm_gelu_tanh: LibTorch's native_layer_norm. The addition before
// it and the gelu after it are passes of their own, which each read and write all rows again.
#include "kernels/layer_norm/layer_norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <type_traits>

#include "kernels/layer_norm/layer_norm_formula.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

// LibTorch's kernel for CPUs stores mean and rstd in the dtype of the weight, and its backward sums the weight's
// gradient in the dtype of x. In bf16 a mean of 100 was off by up to 0.25 then, and a sum of 4096 rows by 7 %. So
// 16-bit tensors become fp32.
Tensor wide_on_cpu(const Tensor& tensor) {
  const bool widens = tensor.defined() && on_cpu(tensor) && at::elementSize(tensor.scalar_type()) == 2;
  return widens ? tensor.to(at::kFloat) : tensor;
}

LayerNormOp::Output layer_norm_forward_aten(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                            const Tensor& bias, double eps) {
  const Tensor sum = branch.defined() ? at::add(x, branch) : Tensor();
  const Tensor& input = branch.defined() ? sum : x;
  auto [y, mean, rstd] = at::native_layer_norm(input, weight.sizes(), wide_on_cpu(weight), wide_on_cpu(bias), eps);
  return {y, sum, mean, rstd};
}

LayerNormOp::Gradient layer_norm_backward_aten(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                               const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                               const Tensor& rstd, const LayerNormOp::GradientDestinations& targets) {
  auto [grad_x, grad_weight, grad_bias] = at::native_layer_norm_backward(
      wide_on_cpu(grad_y), wide_on_cpu(x), weight.sizes(), mean, rstd, wide_on_cpu(weight), wide_on_cpu(bias),
      /*output_mask=*/{true, true, bias.defined()});
  if (grad_sum.defined()) grad_x.add_(grad_sum);
  LayerNormOp::Gradient gradient{grad_x.to(x.scalar_type()), accumulate_wide(grad_weight, weight, targets.weight), {}};
  if (bias.defined()) gradient.bias = accumulate_wide(grad_bias, bias, targets.bias);
  return gradient;
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_aten(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                      const Tensor& bias, double eps) {
  const auto [affine, sum, mean, rstd] = layer_norm_forward_aten(x, branch, weight, bias, eps);
  return {at::gelu(affine, "tanh"), sum, mean, rstd};
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_aten(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                                         const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                         const Tensor& rstd,
                                                         const LayerNormOp::GradientDestinations& targets) {
  const Tensor normalized = at::sub(x, mean).mul_(rstd);
  Tensor affine = at::mul(normalized, weight);
  if (bias.defined()) affine.add_(bias);
  const Tensor grad_affine = at::gelu_backward(grad_y, affine.to(x.scalar_type()), "tanh");
  return layer_norm_backward_aten(grad_affine, grad_sum, x, weight, bias, mean, rstd, targets);
}

LayerNormOp::Output layer_norm_forward_torchscript(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                   const Tensor& bias, double eps) {
  if (!branch.defined()) {
    static const Formula formula(kFormula, "layer_norm");
    return {formula(x, weight, bias, eps), {}, {}, {}};
  }
  static const Formula formula(kFormula, "add_layer_norm");
  const std::vector<Tensor> outputs = formula.tuple(x, branch, weight, bias, eps);
  return {outputs[0], outputs[1], {}, {}};
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_torchscript(const Tensor& x, const Tensor& branch,
                                                             const Tensor& weight, const Tensor& bias, double eps) {
  TORCH_INTERNAL_ASSERT(!branch.defined());
  static const Formula formula(kFormula, "layer_norm_gelu_tanh");
  return {formula(x, weight, bias, eps), {}, {}, {}};
}

// Packages take no undefined tensors. Zeros in place of the bias change no result.
Tensor or_zeros(const Tensor& bias, const Tensor& weight) { return bias.defined() ? bias : at::zeros_like(weight); }

std::vector<AotWidth> width_of(const Tensor& weight) { return {{'d', weight.size(0)}}; }

// Adds `branch` if it is defined; then `function` returns the sum too.
LayerNormOp::Output forward_of(const AotFunction& function, const Tensor& x, const Tensor& branch, const Tensor& weight,
                               const Tensor& bias, double eps) {
  std::vector<Tensor> inputs = {as_rows(x), weight, or_zeros(bias, weight), host_number(eps)};
  if (branch.defined()) inputs.insert(inputs.begin() + 1, as_rows(branch));
  const auto outputs = function(x.scalar_type(), width_of(weight), std::move(inputs));
  const Tensor y = outputs[0].view(x.sizes());
  if (!branch.defined()) return {y, {}, outputs[1], outputs[2]};
  return {y, outputs[1].view(x.sizes()), outputs[2], outputs[3]};
}

// `function` returns the gradients of x, weight and bias. An undefined bias gets no gradient.
LayerNormOp::Gradient backward_of(const AotFunction& function, std::vector<Tensor> inputs, const Tensor& x,
                                  const Tensor& weight, const Tensor& bias,
                                  const LayerNormOp::GradientDestinations& targets) {
  const auto gradients = function(x.scalar_type(), width_of(weight), std::move(inputs));
  return {gradients[0].view(x.sizes()), accumulate_wide(gradients[1], weight, targets.weight),
          bias.defined() ? accumulate_wide(gradients[2], bias, targets.bias) : Tensor()};
}

LayerNormOp::Output layer_norm_forward_aot_inductor(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                    const Tensor& bias, double eps) {
  static const AotFunction plain(LayerNormOp::kName, kFormula, "layer_norm_forward");
  static const AotFunction adds(LayerNormOp::kName, kFormula, "add_layer_norm_forward");
  return forward_of(branch.defined() ? adds : plain, x, branch, weight, bias, eps);
}

LayerNormOp::Gradient layer_norm_backward_aot_inductor(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                                       const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                       const Tensor& rstd,
                                                       const LayerNormOp::GradientDestinations& targets) {
  static const AotFunction plain(LayerNormOp::kName, kFormula, "layer_norm_backward");
  static const AotFunction adds(LayerNormOp::kName, kFormula, "add_layer_norm_backward");
  std::vector<Tensor> inputs = {as_rows(grad_y), as_rows(x), weight, mean, rstd};
  if (grad_sum.defined()) inputs.insert(inputs.begin() + 1, as_rows(grad_sum));
  return backward_of(grad_sum.defined() ? adds : plain, std::move(inputs), x, weight, bias, targets);
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_aot_inductor(const Tensor& x, const Tensor& branch,
                                                              const Tensor& weight, const Tensor& bias, double eps) {
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_gelu_tanh_forward");
  return forward_of(function, x, branch, weight, bias, eps);
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_aot_inductor(const Tensor& grad_y, const Tensor& grad_sum,
                                                                 const Tensor& x, const Tensor& weight,
                                                                 const Tensor& bias, const Tensor& mean,
                                                                 const Tensor& rstd,
                                                                 const LayerNormOp::GradientDestinations& targets) {
  TORCH_INTERNAL_ASSERT(!grad_sum.defined());
  static const AotFunction function(LayerNormOp::kName, kFormula, "layer_norm_gelu_tanh_backward");
  return backward_of(function, {as_rows(grad_y), as_rows(x), weight, or_zeros(bias, weight), mean, rstd}, x, weight,
                     bias, targets);
}

// LayerNormOp and AddLayerNormOp have these kernels, which add if there is a branch.
template <class Op>
constexpr KernelTable<Op> kTable = {
    .aten = {layer_norm_forward_aten, layer_norm_backward_aten},
    .torchscript = {layer_norm_forward_torchscript, nullptr},
    .aot_inductor = {layer_norm_forward_aot_inductor, layer_norm_backward_aot_inductor},
    .triton = {layer_norm_forward_triton, layer_norm_backward_triton},
    .cuda = {layer_norm_forward_cuda, layer_norm_backward_cuda},
};

template <class Op>
constexpr bool kAdds = std::is_same_v<Op, AddLayerNormOp>;

template <class Op>
LayerNormShape shape_of(const Tensor& x, const Tensor& bias) {
  return {.rows = row_count(x),
          .width = row_width(x),
          .bias = bias.defined(),
          .adds = kAdds<Op>,
          .gelu_tanh = std::is_same_v<Op, LayerNormGeluTanhOp>};
}

// Op is AddLayerNormOp, or LayerNormOp or LayerNormGeluTanhOp, which have no branch.
template <class Op>
struct LayerNormFunction : Recorded<LayerNormFunction<Op>, Op> {
  // Returns {y}, or {y, sum} if there is a branch.
  static variable_list forward(AutogradContext* context, const Kernel<Op>& kernel, const Tensor& x,
                               const Tensor& branch, const Tensor& weight, const Tensor& bias, double eps) {
    const auto [y, sum, mean, rstd] = kernel.forward(x, branch, weight, bias, eps);
    context->save_for_backward({kAdds<Op> ? sum : x, weight, bias, mean, rstd});
    if constexpr (!kAdds<Op>) return {y};
    context->set_materialize_grads(false);  // an unused sum gets no gradient of zeros
    return {y, sum};
  }
  static variable_list backward(AutogradContext* context, const Kernel<Op>& kernel, const variable_list& gradients,
                                double) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3], &rstd = saved[4];
    const Tensor grad_sum = kAdds<Op> ? gradients[1] : Tensor();
    if (!gradients[0].defined()) return {grad_sum, grad_sum};  // y was not used
    const auto gradient = kernel.backward(gradients[0], grad_sum, x, weight, bias, mean, rstd,
                                          {take_gradient_destination(weight), take_gradient_destination(bias)});
    return {gradient.x, kAdds<Op> ? gradient.x : Tensor(), gradient.weight, gradient.bias};
  }
};

void check(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  require(x.dim() >= 1 && x.size(-1) > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, level, "x is ",
          x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., D] and weight [D]");
  require_same_kind(op, level, "x", x, "weight", weight);
  if (bias.defined()) require_alike(op, level, "weight", weight, "bias", bias);
}

template <class Op>
NormedSum normed(const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias, double eps,
                 Level level) {
  const Kernel<Op>& kernel = Op::kKernels.at(level, x.device());
  if constexpr (kAdds<Op>) require_alike(Op::kName, level, "residual", x, "branch", branch);
  check(Op::kName, x, weight, bias, level);
  if (kernel.is_recorded()) {
    const variable_list outputs = LayerNormFunction<Op>::apply(level, shape_of<Op>(x, bias), x, if_defined(branch),
                                                               weight, if_defined(bias), eps);
    return {outputs.front(), kAdds<Op> ? outputs.back() : Tensor()};
  }
  const CallScope scope(Op::kName, level, x, [&] { return shape_of<Op>(x, bias); });
  const auto output =
      kernel.forward(x, branch, with_gradient_destination(weight), with_gradient_destination(bias), eps);
  return {output.y, output.sum};
}

}  // namespace

constinit const KernelTable<LayerNormOp> LayerNormOp::kKernels = kTable<LayerNormOp>;
constinit const KernelTable<AddLayerNormOp> AddLayerNormOp::kKernels = kTable<AddLayerNormOp>;

constinit const KernelTable<LayerNormGeluTanhOp> LayerNormGeluTanhOp::kKernels = {
    .aten = {layer_norm_gelu_tanh_forward_aten, layer_norm_gelu_tanh_backward_aten},
    .torchscript = {layer_norm_gelu_tanh_forward_torchscript, nullptr},
    .aot_inductor = {layer_norm_gelu_tanh_forward_aot_inductor, layer_norm_gelu_tanh_backward_aot_inductor},
    .triton = {layer_norm_gelu_tanh_forward_triton, layer_norm_gelu_tanh_backward_triton},
    .cuda = {layer_norm_gelu_tanh_forward_cuda, layer_norm_gelu_tanh_backward_cuda},
};

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level) {
  return normed<LayerNormOp>(x, /*branch=*/{}, weight, bias, eps, level).y;
}

Tensor layer_norm_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level) {
  return normed<LayerNormGeluTanhOp>(x, /*branch=*/{}, weight, bias, eps, level).y;
}

NormedSum add_layer_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                         double eps, Level level) {
  return normed<AddLayerNormOp>(residual, branch, weight, bias, eps, level);
}

}  // namespace strata::kernels
