// SPDX-License-Identifier: MIT
// The table of activation, its autograd and its checks of arguments, and the levels that have no file of their own.
// Level aten of activation: one LibTorch operator for each direction, such as at::gelu and at::gelu_backward.
#include "kernels/activation/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>

#include "kernels/activation/activation_formula.h"
#include "kernels/activation/activation_shape.h"
#include "kernels/activation/kind_functions.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

Tensor activation_forward_torchscript(const Tensor& x, Activation kind) {
  static const Formula formula(kFormula, "activation");
  return formula(x, std::string(name(kind)));
}

Tensor call_by_lanes(const AotFunction& function, const Tensor& like, const std::vector<Tensor>& lanes) {
  return function(like.scalar_type(), {{'c', lanes[0].size(1)}}, lanes)[0].view(like.sizes());
}

Tensor activation_forward_aot_inductor(const Tensor& x, Activation kind) {
  static const KindFunctions functions(ActivationOp::kName, kFormula,
                                       {{Activation::gelu, "gelu_forward"},
                                        {Activation::gelu_tanh, "gelu_tanh_forward"},
                                        {Activation::relu, "relu_forward"},
                                        {Activation::silu, "silu_forward"}},
                                       AotWidths::lanes);
  return call_by_lanes(functions.of(kind), x, {as_lanes(x)});
}

Tensor activation_backward_aot_inductor(const Tensor& grad_y, const Tensor& x, Activation kind) {
  static const KindFunctions functions(ActivationOp::kName, kFormula,
                                       {{Activation::gelu, "gelu_backward"},
                                        {Activation::gelu_tanh, "gelu_tanh_backward"},
                                        {Activation::relu, "relu_backward"},
                                        {Activation::silu, "silu_backward"}},
                                       AotWidths::lanes);
  return call_by_lanes(functions.of(kind), x, {as_lanes(grad_y), as_lanes(x)});
}

ActivationShape shape_of(const Tensor& x, Activation kind) {
  return {.rows = row_count(x), .width = row_width(x), .kind = kind};
}

struct ActivationFunction : Recorded<ActivationFunction, ActivationOp> {
  static Tensor forward(AutogradContext* context, const Kernel<ActivationOp>& kernel, const Tensor& x,
                        Activation kind) {
    context->save_for_backward({x});
    return kernel.forward(x, kind);
  }
  static variable_list backward(AutogradContext* context, const Kernel<ActivationOp>& kernel,
                                const variable_list& gradients, Activation kind) {
    return {kernel.backward(gradients[0], context->get_saved_variables()[0], kind)};
  }
};

}  // namespace

Tensor activation_forward_aten(const Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::relu:
      return at::relu(x);
    case Activation::silu:
      return at::silu(x);
  }
  return x;  // unreachable: the switch is complete
}

Tensor activation_backward_aten(const Tensor& grad_y, const Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::none:
      return grad_y;
    case Activation::gelu:
      return at::gelu_backward(grad_y, x);
    case Activation::gelu_tanh:
      return at::gelu_backward(grad_y, x, "tanh");
    case Activation::relu:
      return at::threshold_backward(grad_y, x, 0);
    case Activation::silu:
      return at::silu_backward(grad_y, x);
  }
  return grad_y;  // unreachable: the switch is complete
}

constinit const KernelTable<ActivationOp> ActivationOp::kKernels = {
    .aten = {activation_forward_aten, activation_backward_aten},
    .torchscript = {activation_forward_torchscript, nullptr},
    .aot_inductor = {activation_forward_aot_inductor, activation_backward_aot_inductor},
    .triton = {activation_forward_triton, activation_backward_triton},
    .cuda = {activation_forward_cuda, activation_backward_cuda},
};

Tensor activation(const Tensor& x, Activation kind, Level level) {
  const Kernel<ActivationOp>& kernel = ActivationOp::kKernels.at(level, x.device());
  require(kind != Activation::none, ActivationOp::kName, level, "kind is none, expected gelu, gelu_tanh, relu or silu");
  require(x.is_floating_point(), ActivationOp::kName, level, "x is ", x.scalar_type(),
          ", expected a floating point type");
  if (kernel.is_recorded()) return ActivationFunction::apply(level, shape_of(x, kind), x, kind);
  const CallScope scope(ActivationOp::kName, level, x, [&] { return shape_of(x, kind); });
  return kernel.forward(x, kind);
}

}  // namespace strata::kernels
