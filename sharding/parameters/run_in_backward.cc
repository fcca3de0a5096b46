// SPDX-License-Identifier: MIT
#include "sharding/parameters/run_in_backward.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace strata::sharding {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Action : torch::CustomClassHolder {
  explicit Action(std::function<void()> run) : run(std::move(run)) {}
  std::function<void()> run;
};

// Identity on all tensors together. Its backward runs `action` after the gradients of all of them have arrived.
class RunInBackward : public torch::autograd::Function<RunInBackward> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList tensors,
                               const c10::intrusive_ptr<Action>& action) {
    context->saved_data["action"] = c10::IValue::make_capsule(action);
    variable_list same;
    for (const Tensor& tensor : tensors) same.push_back(tensor.view_as(tensor));
    return same;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    c10::static_intrusive_pointer_cast<Action>(context->saved_data["action"].toCapsule())->run();
    gradients.emplace_back();  // the action has no gradient
    return gradients;
  }
};

}  // namespace

std::vector<Tensor> run_in_backward(std::vector<Tensor> tensors, std::function<void()> action) {
  variable_list tracked;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) tracked.push_back(tensor);
  }
  if (tracked.empty() || !c10::GradMode::is_enabled()) return tensors;
  tracked = RunInBackward::apply(at::TensorList(tracked), c10::make_intrusive<Action>(std::move(action)));
  auto next = tracked.begin();
  for (Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) tensor = *next++;
  }
  return tensors;
}

}  // namespace strata::sharding
