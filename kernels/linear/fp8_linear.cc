// SPDX-License-Identifier: MIT
// N tokens, I input width, O output width. cuBLASLt wants both operands of an FP8 product with neighboring elements
// along the dimension over which it sums:
//   y           [N, O] = x rows [N, I]         times weight rows [O, I]
//   grad_x      [N, I] = grad_y rows [N, O]    times weight columns [I, O]
//   grad_weight [O, I] = grad_y columns [O, N] times x columns [I, N]
#include "kernels/linear/fp8_linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kOp = LinearOp::kName;

LinearShape shape_of(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  return {.rows = row_count(rows),
          .inputs = weight.size(1),
          .outputs = weight.size(0),
          .activation = Activation::none,
          .bias = bias.defined()};
}

std::vector<int64_t> with_width(at::IntArrayRef sizes, int64_t width) {
  std::vector<int64_t> result = sizes.vec();
  result.back() = width;
  return result;
}

// y, and x as the operand of the gradient of the weight if `layouts` has its columns.
struct Forward {
  Tensor y;
  Fp8Operand x;
};

Forward forward_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Element element,
                        OperandLayouts layouts) {
  const CallScope scope(kOp, Level::cuda, x, [&] { return shape_of(x, weight, bias); });
  const Fp8Operand of_x = fp8_operand(x.reshape({-1, x.size(-1)}), element, layouts);
  const Fp8Operand of_weight = fp8_operand(weight, element, OperandLayouts::rows);
  const Tensor y = at::empty(with_width(x.sizes(), weight.size(0)), x.options());
  gemm(kOp, {.a = of_x.rows,
             .b = of_weight.rows.t(),
             .out = y.view({-1, y.size(-1)}),
             .bias = bias.defined() ? bias.contiguous() : bias,
             .a_scale = of_x.scale,
             .b_scale = of_weight.scale,
             .fast_sums = true});
  return {y, of_x};
}

// Sums in the type of the destination, so that a destination in fp32 gets no numbers that were rounded to 16 bits.
Tensor bias_gradient(const Tensor& grad_NO, const Tensor& bias) {
  const GradientDestination where = take_gradient_destination(bias);
  const at::ScalarType type = where.into.defined() ? where.into.scalar_type() : bias.scalar_type();
  return accumulate(at::sum(grad_NO, /*dim=*/0, /*keepdim=*/false, type), where);
}

struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const ProductFormats& formats) {
    const Tensor bias = given_bias.value_or(Tensor());
    const auto layouts = weight.requires_grad() ? OperandLayouts::both : OperandLayouts::rows;
    const auto [y, of_x] = forward_product(x, weight, bias, formats.values.element, layouts);
    context->save_for_backward({of_x.columns, of_x.scale, weight, bias});
    context->saved_data["values"] = static_cast<int64_t>(formats.values.element);
    context->saved_data["gradients"] = static_cast<int64_t>(formats.gradients.element);
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x_columns = saved[0], &x_scale = saved[1], &weight = saved[2], &bias = saved[3];
    const Tensor& grad_y = gradients[0];
    const CallScope scope(kOp, Level::cuda, kBackward, grad_y, [&] { return shape_of(grad_y, weight, bias); });
    const auto element = [&](const char* which) { return static_cast<Element>(context->saved_data[which].toInt()); };
    const Tensor grad_NO = grad_y.reshape({-1, weight.size(0)});
    const bool of_x = context->needs_input_grad(0), of_weight = context->needs_input_grad(1);
    Fp8Operand of_grad;
    if (of_x || of_weight) {
      const OperandLayouts layouts = !of_x       ? OperandLayouts::columns
                                     : of_weight ? OperandLayouts::both
                                                 : OperandLayouts::rows;
      of_grad = fp8_operand(grad_NO, element("gradients"), layouts);
    }
    Tensor grad_x, grad_weight, grad_bias;
    if (of_x) {
      const Fp8Operand operand = fp8_operand(weight, element("values"), OperandLayouts::columns);
      grad_x = at::empty(with_width(grad_y.sizes(), weight.size(1)), grad_y.options());
      gemm(kOp, {.a = of_grad.rows,
                 .b = operand.columns.t(),
                 .out = grad_x.view({-1, weight.size(1)}),
                 .a_scale = of_grad.scale,
                 .b_scale = operand.scale});
    }
    if (of_weight) {
      const Gemm product = {.a = of_grad.columns, .b = x_columns.t(), .a_scale = of_grad.scale, .b_scale = x_scale};
      grad_weight = gemm_gradient(kOp, product, weight.scalar_type(), take_gradient_destination(weight));
    }
    if (bias.defined()) grad_bias = bias_gradient(grad_NO, bias);
    return {grad_x, grad_weight, grad_bias, Tensor()};
  }
};

}  // namespace

Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const ProductFormats& formats) {
  require(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), kOp, Level::cuda, "x is ", x.sizes(),
          " and weight is ", weight.sizes(), ", expected x [..., in] and weight [out, in]");
  require_same_kind(kOp, Level::cuda, "x", x, "weight", weight);
  if (bias.defined()) {
    require(bias.dim() == 1 && bias.size(0) == weight.size(0), kOp, Level::cuda, "bias is ", bias.sizes(),
            ", expected [", weight.size(0), "]");
    require_same_kind(kOp, Level::cuda, "x", x, "bias", bias);
  }
  if (c10::GradMode::is_enabled()) return Fp8Linear::apply(x, weight, if_defined(bias), formats);
  return forward_product(x, weight, bias, formats.values.element, OperandLayouts::rows).y;
}

}  // namespace strata::kernels
