// SPDX-License-Identifier: MIT
// The table of swiglu, its autograd and its checks of arguments, and the levels that have no file of their own. Level
// aten of swiglu: LibTorch's silu or gelu, and then a product in place. The backward recomputes the activated gate in
// one more pass, so the forward saves nothing but its input.
#include "kernels/swiglu/swiglu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <c10/util/Exception.h>

#include "kernels/activation/activation.h"
#include "kernels/activation/kind_functions.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/swiglu/swiglu_formula.h"
#include "kernels/swiglu/swiglu_shape.h"

namespace strata::kernels {
namespace {

struct Halves {
  Tensor gate, up;
};

Halves halves(const Tensor& gate_up) {
  const int64_t width = gate_up.size(-1) / 2;
  return {gate_up.narrow(-1, 0, width), gate_up.narrow(-1, width, width)};
}

Tensor swiglu_forward_aten(const Tensor& gate_up, Activation kind) {
  const auto [gate, up] = halves(gate_up);
  return activation_forward_aten(gate, kind).mul_(up);
}

// Recomputes the activated gate: one more pass of exp, instead of F values per row that are saved from forward to
// backward.
Tensor swiglu_backward_aten(const Tensor& grad_y, const Tensor& gate_up, Activation kind) {
  const auto [gate, up] = halves(gate_up);
  const Tensor grad = at::empty(gate_up.sizes(), gate_up.options());
  auto [grad_gate, grad_up] = halves(grad);
  at::mul_out(grad_gate, grad_y, up);
  switch (kind) {
    case Activation::gelu_tanh:
      at::gelu_backward_out(grad_gate, grad_gate, gate, "tanh");
      at::gelu_out(grad_up, gate, "tanh");
      break;
    case Activation::silu:
      at::silu_backward_out(grad_gate, grad_gate, gate);
      at::silu_out(grad_up, gate);
      break;
    case Activation::none:
    case Activation::gelu:
    case Activation::relu:
      TORCH_INTERNAL_ASSERT(false, "swiglu: no gate with activation ", name(kind));
  }
  grad_up.mul_(grad_y);
  return grad;
}

Tensor swiglu_forward_torchscript(const Tensor& gate_up, Activation kind) {
  static const Formula formula(kFormula, "swiglu");
  return formula(gate_up, std::string(name(kind)));
}

// Views gate_up as [rows, 2, F].
Tensor rows_of_halves(const Tensor& gate_up) {
  const int64_t width = gate_up.size(-1) / 2;
  return as_rows(gate_up).unflatten(1, {2, width});
}

Tensor swiglu_forward_aot_inductor(const Tensor& gate_up, Activation kind) {
  static const KindFunctions functions(
      SwigluOp::kName, kFormula, {{Activation::silu, "swiglu_forward"}, {Activation::gelu_tanh, "geglu_forward"}});
  const AotFunction& function = functions.of(kind);
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() /= 2;
  return function(gate_up.scalar_type(), {{'f', shape.back()}}, {rows_of_halves(gate_up)})[0].view(shape);
}

Tensor swiglu_backward_aot_inductor(const Tensor& grad_y, const Tensor& gate_up, Activation kind) {
  static const KindFunctions functions(
      SwigluOp::kName, kFormula, {{Activation::silu, "swiglu_backward"}, {Activation::gelu_tanh, "geglu_backward"}});
  const AotFunction& function = functions.of(kind);
  return function(gate_up.scalar_type(), {{'f', grad_y.size(-1)}}, {as_rows(grad_y), rows_of_halves(gate_up)})[0].view(
      gate_up.sizes());
}

SwigluShape shape_of(const Tensor& gate_up, Activation kind) {
  return {.rows = row_count(gate_up), .width = gate_up.size(-1) / 2, .kind = kind};
}

struct SwigluFunction : Recorded<SwigluFunction, SwigluOp> {
  static Tensor forward(AutogradContext* context, const Kernel<SwigluOp>& kernel, const Tensor& gate_up,
                        Activation kind) {
    context->save_for_backward({gate_up});
    return kernel.forward(gate_up, kind);
  }
  static variable_list backward(AutogradContext* context, const Kernel<SwigluOp>& kernel,
                                const variable_list& gradients, Activation kind) {
    return {kernel.backward(gradients[0], context->get_saved_variables()[0], kind)};
  }
};

const Kernel<SwigluOp>& checked_kernel(const Tensor& gate_up, Activation kind, Level level) {
  constexpr auto op = SwigluOp::kName;
  const Kernel<SwigluOp>& kernel = SwigluOp::kKernels.at(level, gate_up.device());
  require(gate_up.is_floating_point() && gate_up.dim() >= 1 && gate_up.size(-1) % 2 == 0, op, level, "gate_up is ",
          gate_up.scalar_type(), " ", gate_up.sizes(), ", expected floating point [..., 2F]");
  require(is_gate(kind), op, level, "kind is ", name(kind), ", expected silu or gelu_tanh");
  return kernel;
}

}  // namespace

constinit const KernelTable<SwigluOp> SwigluOp::kKernels = {
    .aten = {swiglu_forward_aten, swiglu_backward_aten},
    .torchscript = {swiglu_forward_torchscript, nullptr},
    .aot_inductor = {swiglu_forward_aot_inductor, swiglu_backward_aot_inductor},
    .triton = {swiglu_forward_triton, swiglu_backward_triton},
    .cuda = {swiglu_forward_cuda, swiglu_backward_cuda},
};

Tensor swiglu(const Tensor& gate_up, Activation kind, Level level) {
  const Kernel<SwigluOp>& kernel = checked_kernel(gate_up, kind, level);
  if (kernel.is_recorded()) return SwigluFunction::apply(level, shape_of(gate_up, kind), gate_up, kind);
  const CallScope scope(SwigluOp::kName, level, gate_up, [&] { return shape_of(gate_up, kind); });
  return kernel.forward(gate_up, kind);
}

WithAmax swiglu_with_amax(const Tensor& gate_up, Activation kind) {
  checked_kernel(gate_up, kind, Level::cuda);
  const CallScope scope(SwigluOp::kName, Level::cuda, gate_up, [&] { return shape_of(gate_up, kind); });
  return swiglu_forward_cuda_with_amax(gate_up, kind);
}

WithAmax swiglu_gradient_with_amax(const Tensor& grad_y, const Tensor& gate_up, Activation kind, bool in_place) {
  const CallScope scope(SwigluOp::kName, Level::cuda, kBackward, gate_up, [&] { return shape_of(gate_up, kind); });
  return swiglu_backward_cuda_with_amax(grad_y, gate_up, kind, in_place);
}

}  // namespace strata::kernels
