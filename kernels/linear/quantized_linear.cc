// SPDX-License-Identifier: MIT
// N tokens, I input width, O output width
#include "kernels/linear/quantized_linear.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/linear/fp8_linear.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/made_weight.h"
#include "kernels/linear/saved_rounding.h"
#include "kernels/quantize/quantize.h"
#include "kernels/quantize/weight_codes.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor rounded(const Tensor& x, QuantizedFormat format, const DelayedScale& scale) {
  return rounded_to(x, format, Rounding::nearest_even, /*key=*/{}, scale);
}

// The weight, or its transpose, from its values or from the codes that were gathered.
Tensor rounded_weight(const Tensor& weight, QuantizedFormat format, const DelayedScale& delayed, bool transposed) {
  const auto [codes, scale] = weight_codes(weight);
  if (!codes.defined()) return rounded(transposed ? weight.t() : weight, format, delayed);
  return dequantize({transposed ? codes.t() : codes, scale.view({1, 1}), {}}, format, weight.scalar_type());
}

// [N, width] -> [width, N and the zeros that fill the last block]
Tensor rounded_along_tokens(const Tensor& x, QuantizedFormat format, const DelayedScale& scale) {
  const int64_t block = block_size(format.scaling), in_last = block == 0 ? 0 : x.size(0) % block;
  return rounded(in_last == 0 ? x.t() : at::constant_pad_nd(x.t(), {0, block - in_last}), format, scale);
}

// a [rows, K], b [columns, K] -> a b^T
Tensor product(const Tensor& a, const Tensor& b, Level level) {
  return linear(a, b, /*bias=*/{}, Activation::none, level);
}

Tensor forward_product(const Tensor& x, const Tensor& weight, const Tensor& bias, const ProductFormats& formats,
                       Level level, const DelayedScales& scales) {
  const Tensor x_NI = rounded(x.reshape({-1, weight.size(1)}), formats.values, scales.x);
  const Tensor weight_OI = rounded_weight(weight, formats.values, scales.weight, /*transposed=*/false);
  const Tensor y_NO = linear_with_made_weight(x_NI, weight_OI, bias, level);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return at::_unsafe_view(y_NO, shape);
}

struct QuantizedLinear : torch::autograd::Function<QuantizedLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const ProductFormats& formats, Level level,
                        const DelayedScales& scales) {
    const Tensor bias = given_bias.value_or(Tensor());
    context->save_for_backward({x, weight, bias});
    context->saved_data["rounding"] = SavedRounding::of(formats, scales);
    save_level(context, level);
    return forward_product(x, weight, bias, formats, level, scales);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Level level = saved_level(context);
    const SavedRounding& rounding = SavedRounding::in(context->saved_data["rounding"]);
    const auto& [values, gradient_format] = rounding.formats;
    const DelayedScales& scales = rounding.scales;
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor grad_NO = gradients[0].reshape({-1, weight.size(0)}), x_NI = x.reshape({-1, weight.size(1)});
    Tensor grad_x, grad_bias;
    if (context->needs_input_grad(0)) {
      const Tensor weight_IO = rounded_weight(weight, values, scales.weight, /*transposed=*/true);
      grad_x =
          at::_unsafe_view(product(rounded(grad_NO, gradient_format, scales.gradient), weight_IO, level), x.sizes());
    }
    const Tensor grad_weight = accumulate(product(rounded_along_tokens(grad_NO, gradient_format, scales.gradient),
                                                  rounded_along_tokens(x_NI, values, scales.x), level),
                                          take_gradient_destination(weight));
    if (bias.defined()) {
      grad_bias = accumulate(at::sum(grad_NO, 0), take_gradient_destination(bias));
    }
    return {grad_x, grad_weight, grad_bias, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const ProductFormats& formats,
                        Level level, const DelayedScales& scales) {
  const int64_t inputs = weight.size(1), outputs = weight.size(0);
  if (multiplies_in_fp8(formats, level, inputs, outputs) ||
      (multiplies_in_blocks(formats, level, inputs, outputs) && is_on(kBlockScaled, x))) {
    return fp8_linear(x, {weight, bias, formats, scales});
  }
  if (!c10::GradMode::is_enabled()) return forward_product(x, weight, bias, formats, level, scales.unrecorded());
  return QuantizedLinear::apply(x, weight, if_defined(bias), formats, level, scales);
}

}  // namespace strata::kernels
