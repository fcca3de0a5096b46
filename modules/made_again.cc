// SPDX-License-Identifier: MIT
#include "modules/made_again.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace strata::modules {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::DataPtr take_memory(const Tensor& tensor) {
  return tensor.storage().set_data_ptr(at::DataPtr(nullptr, tensor.device()));
}

bool fills_its_storage(const Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_contiguous() && tensor.storage().nbytes() == tensor.nbytes();
}

struct Recipe : torch::CustomClassHolder {
  explicit Recipe(std::function<Tensor(const Tensor&)> make) : make(std::move(make)) {}
  std::function<Tensor(const Tensor&)> make;
};

// Identity on the result of `use(made)`. Its backward runs before the backward of `use`, and recomputes `made`.
class MakeAgain : public torch::autograd::Function<MakeAgain> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& result, const Tensor& made, const Tensor& source,
                        const c10::intrusive_ptr<Recipe>& recipe) {
    // Tensors are saved and not captured, because autograd releases saved tensors right after this backward.
    context->save_for_backward({made, source});
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    return result.view_as(result);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::AutoGradMode disabled(false);
    const variable_list saved = context->get_saved_variables();
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    const Tensor again = recipe->make(saved[1]);
    TORCH_CHECK(again.sizes() == saved[0].sizes() && again.scalar_type() == saved[0].scalar_type() &&
                    fills_its_storage(again) && again.storage().use_count() == 1,
                "made again: ", again.scalar_type(), " ", again.sizes(), ", was ", saved[0].scalar_type(), " ",
                saved[0].sizes(), "; expected the same in a storage of its own");
    saved[0].storage().set_data_ptr_noswap(take_memory(again));
    return {gradients[0], Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor use_without_keeping(const MadeAgain& cheap, const std::function<Tensor(const Tensor&)>& use) {
  const Tensor result = use(cheap.made);
  if (!c10::GradMode::is_enabled() || !result.requires_grad()) return result;
  TORCH_CHECK(fills_its_storage(cheap.made), "made again: ", cheap.made.sizes(), " with strides ", cheap.made.strides(),
              " in ", cheap.made.storage().nbytes(), " bytes; expected a storage that holds it alone");
  const Tensor same =
      MakeAgain::apply(result, cheap.made.detach(), cheap.source.detach(), c10::make_intrusive<Recipe>(cheap.make));
  take_memory(cheap.made);
  return same;
}

}  // namespace strata::modules
