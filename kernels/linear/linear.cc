// SPDX-License-Identifier: MIT
// The table of linear, its autograd and its checks of arguments, and the levels that have no file of their own. Level
// aten of linear: LibTorch's mm and addmm, which are cuBLAS on GPUs and oneDNN or MKL on CPUs; the activation is a
// second pass. The product that makes the gradient of the weight writes or adds into the gradient buffer if that has
// its dtype, without a temporary tensor and a second pass.
// N rows, I input width, O output width
#include "kernels/linear/linear.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "kernels/activation/activation.h"
#include "kernels/activation/kind_functions.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/linear_formula.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

LinearOp::Output linear_forward_aten(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const Tensor x_NI = x.reshape({-1, x.size(-1)});
  const Tensor product_NO = bias.defined() ? at::addmm(bias, x_NI, weight.t()) : at::mm(x_NI, weight.t());
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  const Tensor product = at::_unsafe_view(product_NO, shape);
  if (activation == Activation::none) return {product, {}};
  const Tensor y = activation_forward_aten(product, activation);
  return {y, saves_output(activation) ? y : product};
}

// beta of the GEMM is 1 if it adds to the buffer.
Tensor weight_gradient_aten(const Tensor& grad_NO, const Tensor& x_NI, const GradientDestination& where) {
  const Tensor& into = where.into;
  if (!into.defined() || into.scalar_type() != grad_NO.scalar_type() || !into.is_contiguous()) {
    return accumulate(at::mm(grad_NO.t(), x_NI), where);
  }
  Tensor out = into;
  if (where.add) {
    at::addmm_out(out, into, grad_NO.t(), x_NI);
  } else {
    at::mm_out(out, grad_NO.t(), x_NI);
  }
  return {};
}

LinearOp::Gradient linear_backward_aten(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool has_bias,
                                        const Tensor& pre_activation, Activation activation,
                                        const LinearOp::GradientDestinations& targets) {
  const Tensor grad = activation_backward_aten(grad_y, pre_activation, activation);
  const Tensor grad_NO = grad.reshape({-1, weight.size(0)});
  LinearOp::Gradient result;
  if (targets.x) result.x = at::_unsafe_view(at::mm(grad_NO, weight), x.sizes());
  result.weight = weight_gradient_aten(grad_NO, x.reshape({-1, x.size(-1)}), targets.weight);
  if (has_bias) result.bias = accumulate(at::sum(grad_NO, 0), targets.bias);
  return result;
}

LinearOp::Output linear_forward_torchscript(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                            Activation activation) {
  static const Formula formula(kFormula, "linear");
  return {formula(x, weight, bias, std::string(name(activation))), {}};
}

LinearOp::Output linear_forward_aot_inductor(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                             Activation activation) {
  static const AotFunction product(LinearOp::kName, kFormula, "linear_none");
  static const AotFunction product_bias(LinearOp::kName, kFormula, "linear_none_bias");
  static const KindFunctions activated(LinearOp::kName, kFormula,
                                       {{Activation::gelu, "linear_gelu"},
                                        {Activation::gelu_tanh, "linear_gelu_tanh"},
                                        {Activation::relu, "linear_relu"}});
  const int64_t out = weight.size(0);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  std::vector<Tensor> inputs = {as_rows(x), weight};
  if (bias.defined()) inputs.push_back(bias);
  if (activation == Activation::none) {
    const AotFunction& function = bias.defined() ? product_bias : product;
    return {at::_unsafe_view(function(x.scalar_type(), /*widths=*/{}, inputs)[0], shape), {}};
  }
  if (!bias.defined()) inputs.push_back(at::zeros({out}, weight.options()));  // packages take no undefined tensors
  const std::vector<Tensor> outputs = activated.of(activation)(x.scalar_type(), {{'o', out}}, inputs);
  const Tensor y = at::_unsafe_view(outputs[0], shape);
  return {y, saves_output(activation) ? y : outputs[1].view(shape)};
}

LinearOp::Gradient linear_backward_aot_inductor(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                bool has_bias, const Tensor& pre_activation, Activation activation,
                                                const LinearOp::GradientDestinations& targets) {
  static const KindFunctions activation_gradient(LinearOp::kName, kFormula,
                                                 {{Activation::gelu, "gelu_gradient"},
                                                  {Activation::gelu_tanh, "gelu_tanh_gradient"},
                                                  {Activation::relu, "relu_gradient"}});
  static const AotFunction bias_gradient(LinearOp::kName, kFormula, "bias_gradient");
  static const AotFunction input_gradient(LinearOp::kName, kFormula, "input_gradient");
  static const AotFunction weight_gradient(LinearOp::kName, kFormula, "weight_gradient");
  const at::ScalarType dtype = x.scalar_type();
  const int64_t out = weight.size(0);
  Tensor grad_NO = as_rows(grad_y), grad_bias_O;
  if (activation != Activation::none) {
    const std::vector<Tensor> outputs =
        activation_gradient.of(activation)(dtype, {{'o', out}}, {grad_NO, as_rows(pre_activation)});
    grad_NO = outputs[0];
    grad_bias_O = outputs[1];
  } else if (has_bias) {
    grad_bias_O = bias_gradient(dtype, {{'o', out}}, {grad_NO})[0];
  }
  LinearOp::Gradient result;
  if (targets.x) result.x = input_gradient(dtype, /*widths=*/{}, {grad_NO, weight})[0].view(x.sizes());
  result.weight = accumulate(weight_gradient(dtype, /*widths=*/{}, {grad_NO, as_rows(x)})[0], targets.weight);
  if (has_bias) result.bias = accumulate_wide(grad_bias_O, weight, targets.bias);
  return result;
}

}  // namespace

constinit const KernelTable<LinearOp> LinearOp::kKernels = {
    .aten = {linear_forward_aten, linear_backward_aten},
    .torchscript = {linear_forward_torchscript, nullptr},
    .aot_inductor = {linear_forward_aot_inductor, linear_backward_aot_inductor},
    .triton = {linear_forward_triton, linear_backward_triton},
    .cuda = {linear_forward_cuda, linear_backward_cuda},
};

namespace {

struct LinearFunction : Recorded<LinearFunction, LinearOp> {
  // Returns {y} or {y, pre_activation}.
  static variable_list forward(AutogradContext* context, const Kernel<LinearOp>& kernel, const Tensor& x,
                               const Tensor& weight, const Tensor& bias, Activation activation, bool returns_both) {
    const auto [y, pre_activation] = kernel.forward(x, weight, bias, activation);
    context->save_for_backward({x, weight, bias, pre_activation});
    if (!returns_both) return {y};
    context->mark_non_differentiable({pre_activation});
    context->set_materialize_grads(false);  // otherwise every backward would get zeros for pre_activation
    return {y, pre_activation};
  }
  static variable_list backward(AutogradContext* context, const Kernel<LinearOp>& kernel,
                                const variable_list& gradients, Activation activation, bool) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &pre_activation = saved[3];
    const LinearOp::GradientDestinations targets = {context->needs_input_grad(0), take_gradient_destination(weight),
                                                    take_gradient_destination(bias)};
    const LinearOp::Gradient gradient =
        kernel.backward(gradients[0], x, weight, bias.defined(), pre_activation, activation, targets);
    return {gradient.x, gradient.weight, gradient.bias};
  }
};

// Returns {y} or {y, pre_activation}.
variable_list recorded(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                       bool returns_both, Level level) {
  return LinearFunction::apply(level, linear_shape_of(x, weight, bias, activation), x, weight, if_defined(bias),
                               activation, returns_both);
}

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, Level level) {
  constexpr auto op = LinearOp::kName;
  require(is_epilogue(activation), op, level, "activation is ", name(activation),
          ", expected none, gelu, gelu_tanh or relu");
  check_linear(x, weight, bias, level);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, Level level) {
  const Kernel<LinearOp>& kernel = LinearOp::kKernels.at(level, x.device());
  check(x, weight, bias, activation, level);
  if (kernel.is_recorded()) {
    return recorded(x, weight, bias, activation, /*returns_both=*/false, level)[0];
  }
  const CallScope scope(LinearOp::kName, level, x, [&] { return linear_shape_of(x, weight, bias, activation); });
  return kernel.forward(x, with_gradient_destination(weight), with_gradient_destination(bias), activation).y;
}

ActivatedProduct linear_and_pre_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                           Level level) {
  constexpr auto op = LinearOp::kName;
  require(is_epilogue(kind) && needs_input(kind), op, level, "activation is ", name(kind),
          ", expected gelu or gelu_tanh, because no other activation saves its input");
  const Kernel<LinearOp>& kernel = LinearOp::kKernels.at(level, x.device());
  if (kernel.backward == nullptr) {  // autograd differentiates both parts
    const Tensor product = linear(x, weight, bias, Activation::none, level);
    return {activation(product, kind, level), product};
  }
  check(x, weight, bias, kind, level);
  const variable_list both = recorded(x, weight, bias, kind, /*returns_both=*/true, level);
  return {both[0], both[1]};
}

}  // namespace strata::kernels
