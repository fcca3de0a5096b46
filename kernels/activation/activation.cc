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
#include <c10/util/Exception.h>

#include "kernels/activation/activation_formula.h"
#include "kernels/activation/activation_shape.h"
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

// The compiled functions of one direction, one per kind.
struct Functions {
  explicit Functions(const char* gelu, const char* gelu_tanh, const char* relu, const char* silu)
      : gelu(ActivationOp::kName, kFormula, gelu, AotWidths::lanes),
        gelu_tanh(ActivationOp::kName, kFormula, gelu_tanh, AotWidths::lanes),
        relu(ActivationOp::kName, kFormula, relu, AotWidths::lanes),
        silu(ActivationOp::kName, kFormula, silu, AotWidths::lanes) {}
  AotFunction gelu, gelu_tanh, relu, silu;

  Tensor operator()(Activation kind, const Tensor& like, const std::vector<Tensor>& inputs) const {
    return of(kind)(like.scalar_type(), {{'c', inputs[0].size(1)}}, inputs)[0].view(like.sizes());
  }

 private:
  const AotFunction& of(Activation kind) const {
    switch (kind) {
      case Activation::gelu:
        return gelu;
      case Activation::gelu_tanh:
        return gelu_tanh;
      case Activation::relu:
        return relu;
      case Activation::silu:
        return silu;
      case Activation::none:
        break;
    }
    TORCH_INTERNAL_ASSERT(false, "activation: no function of kind ", name(kind));
  }
};

Tensor activation_forward_aot_inductor(const Tensor& x, Activation kind) {
  static const Functions functions("gelu_forward", "gelu_tanh_forward", "relu_forward", "silu_forward");
  return functions(kind, x, {as_lanes(x)});
}

Tensor activation_backward_aot_inductor(const Tensor& grad_y, const Tensor& x, Activation kind) {
  static const Functions functions("gelu_backward", "gelu_tanh_backward", "relu_backward", "silu_backward");
  return functions(kind, x, {as_lanes(grad_y), as_lanes(x)});
}

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

namespace {

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
