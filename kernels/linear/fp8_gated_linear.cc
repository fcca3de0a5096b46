// SPDX-License-Identifier: MIT
#include "kernels/linear/fp8_gated_linear.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <optional>
#include <utility>

#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/saved_rounding.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Fp8GatedLinear : torch::autograd::Function<Fp8GatedLinear> {
  // Returns {y, amax of y}.
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                               const std::optional<Tensor>& bias, const ProductFormats& formats,
                               const DelayedScales& scales, Activation kind) {
    const Fp8Layer layer = {weight, bias.value_or(Tensor()), formats, scales};
    const auto [product, saved] = fp8_product(x, /*x_amax=*/{}, layer, layouts_for(weight));
    const auto [y, amax] = swiglu_with_amax(product, kind);
    context->save_for_backward({layer.weight, layer.bias, saved.x_columns, saved.x_scale, saved.weight_amax, product});
    context->saved_data["rounding"] = SavedRounding::of(formats, scales);
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    context->mark_non_differentiable({amax});
    context->set_materialize_grads(false);  // otherwise every backward would get zeros for amax
    return {y, amax};
  }
  // Takes the gradient of y out of the list, so that its memory is free when the gradient of the product is there.
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(6);  // y has no part in the loss
    const variable_list saved = context->get_saved_variables();
    const SavedRounding& rounding = SavedRounding::in(context->saved_data["rounding"]);
    const Fp8Layer layer = {saved[0], saved[1], rounding.formats, rounding.scales};
    const auto kind = static_cast<Activation>(context->saved_data["kind"].toInt());
    // Unless the graph is kept for another backward, autograd releases what was saved right after this call.
    const bool in_place = !torch::autograd::get_current_graph_task_keep_graph();
    const auto [product_gradient, amax] =
        swiglu_gradient_with_amax(std::exchange(gradients[0], Tensor()), saved[5], kind, in_place);
    const Fp8Gradients result =
        fp8_gradients(product_gradient, amax, {saved[2], saved[3], saved[4]}, layer,
                      {.x = context->needs_input_grad(0), .weight = context->needs_input_grad(1)});
    return {result.x, result.weight, result.bias, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

WithAmax fp8_gated_linear(const Tensor& x, const Fp8Layer& layer, Activation kind) {
  const auto& [weight, bias, formats, scales] = layer;
  check_linear(x, weight, bias, Level::cuda);
  TORCH_CHECK_VALUE(formats.values.scaling == Scaling::tensor, "fp8_gated_linear: scaling is ",
                    name(formats.values.scaling),
                    ", expected tensor; another one is computed by fp8_linear() and swiglu()");
  if (!c10::GradMode::is_enabled()) {
    const Tensor product = fp8_product(x, /*x_amax=*/{}, layer.unrecorded(), OperandLayouts::rows).y;
    // With a history the scale of y is known, and nothing is recorded, so nobody would read the magnitude.
    if (scales.x.past.defined()) return {swiglu(product, kind, Level::cuda), {}};
    return swiglu_with_amax(product, kind);
  }
  const variable_list both = Fp8GatedLinear::apply(x, weight, if_defined(bias), formats, scales, kind);
  return {both[0], both[1]};
}

}  // namespace strata::kernels
