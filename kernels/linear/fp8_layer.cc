// SPDX-License-Identifier: MIT
// N tokens, I input width, O output width. cuBLASLt wants both operands of an FP8 product with neighboring elements
// along the dimension over which it sums:
//   y           [N, O] = x rows [N, I]         times weight rows [O, I]
//   grad_x      [N, I] = grad_y rows [N, O]    times weight columns [I, O]
//   grad_weight [O, I] = grad_y columns [O, N] times x columns [I, N]
// With scaling `row` each row of an operand has a scale, which is one number for a row or a column of the result. With
// scalings `mx` and `nv` each block of a row has one, along the dimension that is summed.
#include "kernels/linear/fp8_layer.h"

#include <ATen/ops/sum.h>

#include "kernels/cuda/gemm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/quantize/block_operand.h"
#include "kernels/quantize/fp8_shard.h"
#include "kernels/quantize/weight_codes.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = LinearOp::kName;

// Sums in the type of the destination, so that a destination in fp32 gets no numbers that were rounded to 16 bits.
Tensor bias_gradient(const Tensor& grad_NO, const Tensor& bias) {
  const GradientDestination where = take_gradient_destination(bias);
  const at::ScalarType type = where.into.defined() ? where.into.scalar_type() : bias.scalar_type();
  return accumulate(at::sum(grad_NO, /*dim=*/0, /*keepdim=*/false, type), where);
}

Fp8Operand operand(const Tensor& x, QuantizedFormat format, OperandLayouts layouts, const Tensor& amax,
                   const DelayedScale& delayed) {
  const bool has_blocks = format.scaling == Scaling::mx || format.scaling == Scaling::nv;
  return has_blocks ? block_operand(x, format, layouts, amax) : fp8_operand(x, format, layouts, amax, delayed);
}

// `amax` comes from an earlier operand, or is undefined. The operand of a weight that was gathered as codes has none.
Fp8Operand weight_operand(const Fp8Layer& layer, OperandLayouts layouts, const Tensor& amax,
                          const DelayedScale& delayed) {
  const WeightCodes gathered = weight_codes(layer.weight);
  if (gathered.codes.defined()) return fp8_operand_of_codes(gathered, layouts);
  return operand(layer.weight, layer.formats.values, layouts, amax, delayed);
}

}  // namespace

Fp8Product fp8_product(const Tensor& x, const Tensor& x_amax, const Fp8Layer& layer, OperandLayouts layouts) {
  const CallScope scope(kOp, Level::cuda, x, [&] { return linear_shape_of(x, layer.weight, layer.bias); });
  const auto& [weight, bias, formats, scales] = layer;
  const Fp8Operand quantized_x = operand(x.reshape({-1, x.size(-1)}), formats.values, layouts, x_amax, scales.x);
  const Fp8Operand quantized_weight = weight_operand(layer, OperandLayouts::rows, /*amax=*/{}, scales.weight);
  const Tensor y = empty_of_width(x, weight.size(0));
  gemm(kOp, {.a = quantized_x.rows,
             .b = quantized_weight.rows.t(),
             .out = y.view({-1, y.size(-1)}),
             .bias = bias.defined() ? bias.contiguous() : bias,
             .a_scale = quantized_x.rows_scale,
             .b_scale = quantized_weight.rows_scale,
             .a_tensor_scale = quantized_x.tensor_scale,
             .b_tensor_scale = quantized_weight.tensor_scale,
             .fast_sums = true});
  return {y, {quantized_x.columns, quantized_x.columns_scale, quantized_weight.amax, quantized_x.tensor_scale}};
}

Fp8Gradients fp8_gradients(const Tensor& grad_y, const Tensor& grad_y_amax, const Fp8Saved& saved,
                           const Fp8Layer& layer, Fp8GradientsNeeded needed) {
  const CallScope scope(kOp, Level::cuda, kBackward, grad_y,
                        [&] { return linear_shape_of(grad_y, layer.weight, layer.bias); });
  const auto& [weight, bias, formats, scales] = layer;
  const Tensor grad_NO = grad_y.reshape({-1, weight.size(0)});
  Fp8Operand quantized_grad;
  if (needed.x || needed.weight) {
    const OperandLayouts layouts = !needed.x       ? OperandLayouts::columns
                                   : needed.weight ? OperandLayouts::both
                                                   : OperandLayouts::rows;
    quantized_grad = operand(grad_NO, formats.gradients, layouts, grad_y_amax, scales.gradient);
  }
  Fp8Gradients result;
  if (needed.x) {
    const Fp8Operand quantized_weight = weight_operand(layer, OperandLayouts::columns, saved.weight_amax,
                                                       scales.unrecorded().weight);  // the forward has recorded it
    result.x = empty_of_width(grad_y, weight.size(1));
    gemm(kOp, {.a = quantized_grad.rows,
               .b = quantized_weight.columns.t(),
               .out = result.x.view({-1, weight.size(1)}),
               .a_scale = quantized_grad.rows_scale,
               .b_scale = quantized_weight.columns_scale,
               .a_tensor_scale = quantized_grad.tensor_scale,
               .b_tensor_scale = quantized_weight.tensor_scale});
  }
  if (needed.weight) {
    const Gemm product = {.a = quantized_grad.columns,
                          .b = saved.x_columns.t(),
                          .a_scale = quantized_grad.columns_scale,
                          .b_scale = saved.x_scale,
                          .a_tensor_scale = quantized_grad.tensor_scale,
                          .b_tensor_scale = saved.x_tensor_scale};
    result.weight = gemm_gradient(kOp, product, weight.scalar_type(), take_gradient_destination(weight));
  }
  if (bias.defined()) result.bias = bias_gradient(grad_NO, bias);
  return result;
}

}  // namespace strata::kernels
