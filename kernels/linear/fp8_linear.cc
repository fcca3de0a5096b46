// SPDX-License-Identifier: MIT
#include "kernels/linear/fp8_linear.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/saved_rounding.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const ProductFormats& formats, const DelayedScales& scales,
                        const std::optional<Tensor>& x_amax) {
    const Fp8Layer layer = {weight, bias.value_or(Tensor()), formats, scales};
    const auto [y, saved] = fp8_product(x, x_amax.value_or(Tensor()), layer, layouts_for(weight));
    context->save_for_backward(
        {layer.weight, layer.bias, saved.x_columns, saved.x_scale, saved.weight_amax, saved.x_tensor_scale});
    context->saved_data["rounding"] = SavedRounding::of(formats, scales);
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const SavedRounding& rounding = SavedRounding::in(context->saved_data["rounding"]);
    const Fp8Layer layer = {saved[0], saved[1], rounding.formats, rounding.scales};
    const Fp8Gradients result =
        fp8_gradients(gradients[0], /*grad_y_amax=*/{}, {saved[2], saved[3], saved[4], saved[5]}, layer,
                      {.x = context->needs_input_grad(0), .weight = context->needs_input_grad(1)});
    return {result.x, result.weight, result.bias, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor fp8_linear(const Tensor& x, const Fp8Layer& layer, const Tensor& x_amax) {
  const auto& [weight, bias, formats, scales] = layer;
  check_linear(x, weight, bias, Level::cuda);
  if (c10::GradMode::is_enabled()) {
    return Fp8Linear::apply(x, weight, if_defined(bias), formats, scales, if_defined(x_amax));
  }
  return fp8_product(x, x_amax, layer.unrecorded(), OperandLayouts::rows).y;
}

}  // namespace strata::kernels
