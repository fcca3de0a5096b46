// SPDX-License-Identifier: MIT
#include "modules/selective_recompute.h"

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

struct Make : torch::CustomClassHolder {
  explicit Make(std::function<Tensor(const Tensor&)> given) : function(std::move(given)) {}
  std::function<Tensor(const Tensor&)> function;
};

// Identity on the result of `use(value)`. Its backward runs before the backward of `use`, and recomputes `value`.
class RecomputeTensor : public torch::autograd::Function<RecomputeTensor> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& result, const Tensor& value, const Tensor& source,
                        const c10::intrusive_ptr<Make>& make) {
    // Tensors are saved and not captured, because autograd releases saved tensors right after this backward.
    context->save_for_backward({value, source});
    context->saved_data["make"] = c10::IValue::make_capsule(make);
    return result.view_as(result);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::AutoGradMode disabled(false);
    const variable_list saved = context->get_saved_variables();
    const auto make = c10::static_intrusive_pointer_cast<Make>(context->saved_data["make"].toCapsule());
    // A result that is a view of another shape holds its base, which has the same storage. The copy holds no base.
    const Tensor again = make->function(saved[1]).variable_data();
    TORCH_CHECK(again.sizes() == saved[0].sizes() && again.scalar_type() == saved[0].scalar_type() &&
                    fills_its_storage(again) && again.storage().use_count() == 1,
                "recomputed: ", again.scalar_type(), " ", again.sizes(), ", was ", saved[0].scalar_type(), " ",
                saved[0].sizes(), "; expected the same in a storage of its own");
    saved[0].storage().set_data_ptr_noswap(take_memory(again));
    return {gradients[0], Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor use_recomputed(const RecomputedTensor& cheap, const std::function<Tensor(const Tensor&)>& use) {
  // A node that saves the tensor holds it, or another tensor with its storage.
  const auto holders = [&value = cheap.value] { return value.use_count() + value.storage().use_count(); };
  const size_t holders_before = holders();
  const Tensor result = use(cheap.value);
  if (!c10::GradMode::is_enabled() || !result.requires_grad() || holders() == holders_before) return result;
  TORCH_CHECK(fills_its_storage(cheap.value), "recomputed: ", cheap.value.sizes(), " with strides ",
              cheap.value.strides(), " in ", cheap.value.storage().nbytes(),
              " bytes; expected a storage that holds it alone");
  const Tensor recomputing_result = RecomputeTensor::apply(result, cheap.value.detach(), cheap.source.detach(),
                                                           c10::make_intrusive<Make>(cheap.make));
  take_memory(cheap.value);
  return recomputing_result;
}

}  // namespace strata::modules
