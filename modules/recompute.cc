// SPDX-License-Identifier: MIT
#include "modules/recompute.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <memory>
#include <optional>

#include "modules/selective_recompute.h"

namespace strata::modules {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The layer and the context that backward needs, apart from saved tensors.
struct LayerCall : torch::CustomClassHolder {
  LayerCall(std::shared_ptr<const Layer> layer, StepContext context)
      : layer(std::move(layer)), context(std::move(context)) {}
  std::shared_ptr<const Layer> layer;
  StepContext context;
};

// Autograd functions neither take nor return undefined tensors.
variable_list defined(variable_list tensors) {
  std::erase_if(tensors, [](const Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

std::optional<Tensor> optional(const Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

Tensor as_input(const Tensor& saved, bool requires_grad) {
  return saved.defined() ? saved.detach().requires_grad_(requires_grad) : Tensor();
}

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  // `anchor` requires a gradient and never receives one. Without it, a layer whose inputs need no gradient would have
  // no backward.
  static variable_list forward(AutogradContext* context, const Tensor& residual,
                               const std::optional<Tensor>& given_branch, const Tensor& /*anchor*/,
                               const c10::intrusive_ptr<LayerCall>& call) {
    const Tensor branch = given_branch.value_or(Tensor());
    context->save_for_backward({residual, branch});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["residual_needs_gradient"] = residual.requires_grad();
    context->saved_data["branch_needs_gradient"] = branch.defined() && branch.requires_grad();
    const ResidualStream output = (*call->layer)({residual, branch}, call->context);
    return defined({output.residual, output.branch});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto call = c10::static_intrusive_pointer_cast<LayerCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const ResidualStream input{as_input(saved[0], context->saved_data["residual_needs_gradient"].toBool()),
                               as_input(saved[1], context->saved_data["branch_needs_gradient"].toBool())};
    ResidualStream output;
    {
      const c10::AutoGradMode enabled(true);
      output = (*call->layer)(input, call->context);
    }
    variable_list roots, root_gradients;
    const variable_list outputs = defined({output.residual, output.branch});
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(gradients[i]);
    }
    torch::autograd::backward(roots, root_gradients);
    const auto gradient_of = [](const Tensor& input) { return input.defined() ? input.grad() : Tensor(); };
    return {gradient_of(input.residual), gradient_of(input.branch), Tensor(), Tensor()};
  }
};

}  // namespace

Layer recompute(Layer layer) {
  const auto shared = std::make_shared<const Layer>(std::move(layer));
  return [shared](const ResidualStream& stream, const StepContext& context) -> ResidualStream {
    if (!c10::GradMode::is_enabled()) return (*shared)(stream, context);
    const Tensor anchor = at::zeros({0}, stream.residual.options()).requires_grad_(true);
    const variable_list output = Recompute::apply(stream.residual, optional(stream.branch), anchor,
                                                  c10::make_intrusive<LayerCall>(shared, context));
    return {output[0], output.size() > 1 ? output[1] : Tensor()};
  };
}

Layer recompute_selectively(Layer layer) {
  return [layer = std::move(layer), word = std::make_shared<const SelectiveRecompute>()](const ResidualStream& stream,
                                                                                         const StepContext& context) {
    StepContext selective = context;
    selective.put(word);
    return layer(stream, selective);
  };
}

}  // namespace strata::modules
