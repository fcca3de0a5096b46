// SPDX-License-Identifier: MIT
// Level cuda of linear: products by cuBLASLt, with bias and activation as its epilogue if it supports them, otherwise
// with an activation in a second pass. Few rows have a kernel of their own.
// N rows, I input width, O output width
#include "kernels/linear/linear_cuda.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <optional>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gradient_output.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/few_rows.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_arguments.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = LinearOp::kName;

Tensor rows_of(const Tensor& tensor) { return gemm_operand(tensor.reshape({-1, tensor.size(-1)})); }

// The epilogue supports gelu in its tanh form only, and for 16-bit types only, because its tanh is accurate to about
// 2^-11. Deterministic runs use a product and a second pass, which has the bits of op activation: recomputation with
// that op then gives the same bits. Returns nothing if the product has no such epilogue, or if there is no activation.
std::optional<Epilogue> epilogue_of(Activation activation, const Tensor& y_NO) {
  const bool takes_tanh = y_NO.scalar_type() != at::kFloat && y_NO.size(1) % 8 == 0;
  switch (activation) {
    case Activation::relu:
      return Epilogue::relu;
    case Activation::gelu_tanh:
      if (takes_tanh && !at::globalContext().deterministicAlgorithms()) return Epilogue::gelu_tanh;
      return {};
    case Activation::none:
    case Activation::gelu:
    case Activation::silu:
      return {};
  }
  return {};
}

Tensor bias_gradient(const Tensor& partials, const Tensor& grad_NO, const GradientDestination& where) {
  const GradientOutput target(kOp, {grad_NO.size(1)}, grad_NO.options(), where);
  launch("linear_bias_gradient_cuda", grad_NO, grad_NO.size(0), grad_NO.size(1), [&](cudaStream_t stream) {
    return launch_bias_gradient(target.type(), target.data(), target.add(), partials.const_data_ptr<float>(),
                                partials.size(0), grad_NO.size(1), stream);
  });
  return target.accumulate();
}

}  // namespace

LinearOp::Output linear_forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const CudaType type = cuda_type(kOp, "x", x);
  require(x.size(-1) > 0, kOp, Level::cuda, "x is ", x.sizes(), ", expected a last dimension of at least 1");
  if (are_few_rows(x, weight)) return linear_of_few_rows(x, weight, bias, activation);
  const Tensor y = empty_of_width(x, weight.size(0)), y_NO = y.view({-1, weight.size(0)});
  const Tensor pre_activation = needs_input(activation) ? at::empty_like(y) : Tensor();
  const LinearOp::Output output = {y, saves_output(activation) ? y : pre_activation};
  if (y.numel() == 0) return output;
  const Tensor x_NI = rows_of(x), weight_IO = gemm_operand(weight).t();
  const Tensor shift = bias.defined() ? bias.contiguous() : bias;
  if (const std::optional<Epilogue> epilogue = epilogue_of(activation, y_NO)) {
    Gemm fused = {.a = x_NI, .b = weight_IO, .out = y_NO, .bias = shift, .epilogue = *epilogue};
    if (pre_activation.defined()) fused.pre_activation = pre_activation.view(y_NO.sizes());
    if (try_gemm(kOp, fused)) return output;
  }
  const Tensor product_NO = pre_activation.defined() ? pre_activation.view(y_NO.sizes()) : y_NO;
  gemm(kOp, {.a = x_NI, .b = weight_IO, .out = product_NO, .bias = shift});
  if (activation == Activation::none) return output;
  launch("linear_activation_cuda", y_NO, y_NO.size(0), y_NO.size(1), [&](cudaStream_t stream) {
    return launch_activation_forward(type, activation, y.mutable_data_ptr(), product_NO.const_data_ptr(), y.numel(),
                                     stream);
  });
  return output;
}

LinearOp::Gradient linear_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool has_bias,
                                        const Tensor& pre_activation, Activation activation,
                                        const LinearOp::GradientDestinations& targets) {
  const CudaType type = cuda_type(kOp, "x", x);
  const bool activated = activation != Activation::none;
  const Tensor x_NI = rows_of(x);
  // The kernel reads contiguous rows; products accept rows at any distance.
  const Tensor grad_y_NO = has_bias || activated ? grad_y.reshape({-1, weight.size(0)}).contiguous() : rows_of(grad_y);
  const Tensor grad_NO = activated ? at::empty(grad_y_NO.sizes(), grad_y_NO.options()) : grad_y_NO;
  const int64_t rows = grad_NO.size(0), width = grad_NO.size(1);
  Tensor partials;
  if (has_bias) partials = at::empty({linear_backward_partials(rows, width), width}, x.options().dtype(at::kFloat));
  if (has_bias || activated) {
    launch("linear_activation_gradient_cuda", grad_NO, rows, width, [&](cudaStream_t stream) {
      return launch_activation_gradient(
          type, activated ? grad_NO.mutable_data_ptr() : nullptr,
          has_bias ? partials.mutable_data_ptr<float>() : nullptr, grad_y_NO.const_data_ptr(),
          activated ? pre_activation.const_data_ptr() : nullptr, activation, rows, width, stream);
    });
  }
  LinearOp::Gradient result;
  if (targets.x) {
    result.x = at::empty(x.sizes(), x.options());
    gemm(kOp, {.a = grad_NO, .b = gemm_operand(weight), .out = result.x.view({-1, x.size(-1)})});
  }
  result.weight = gemm_gradient(kOp, {.a = grad_NO.t(), .b = x_NI}, x.scalar_type(), targets.weight);
  if (has_bias) result.bias = bias_gradient(partials, grad_NO, targets.bias);
  return result;
}

}  // namespace strata::kernels
