// SPDX-License-Identifier: MIT
#include "sharding/fully_shard.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/custom_class.h>

#include <algorithm>

namespace strata::sharding {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Action : torch::CustomClassHolder {
  explicit Action(std::function<void()> run) : run(std::move(run)) {}
  std::function<void()> run;
};

// Identity on all tensors at once; runs `action` when the gradients of all of them have arrived.
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
    gradients.emplace_back();  // none for the action
    return gradients;
  }
};

// `tensors` with the action behind them; undefined ones and those without gradients stay as they are.
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

}  // namespace

std::vector<Tensor> ShardedLayers::run(size_t index, const std::vector<Tensor>& inputs, const Function& layer) {
  ShardedParameterGroup& group = *groups_[index];
  const bool recomputing = torch::autograd::get_current_node() != nullptr;  // a forward inside of a backward
  if (recomputing) {
    before_backward(index);
  } else {
    group.start_unshard();
    const size_t ahead = std::min(groups_.size(), index + 1 + static_cast<size_t>(options_.prefetch));
    for (size_t next = index + 1; next < ahead; ++next) groups_[next]->start_unshard();
    group.wait_for_unshard();
  }

  std::vector<Tensor> outputs = layer(run_in_backward(inputs, [this, index] { after_backward(index); }));
  outputs = run_in_backward(std::move(outputs), [this, index] { before_backward(index); });

  // A backward begins with the last layer: giving its parameters away now would gather them twice.
  const bool backward_follows = recomputing || (c10::GradMode::is_enabled() && index + 1 == groups_.size());
  if (options_.reshard_after_forward && !backward_follows) group.reshard();
  return outputs;
}

void ShardedLayers::before_backward(size_t index) {
  groups_[index]->start_unshard();
  const size_t ahead = std::min(index, static_cast<size_t>(options_.prefetch));
  for (size_t distance = 1; distance <= ahead; ++distance) groups_[index - distance]->start_unshard();
  groups_[index]->wait_for_unshard();
}

void ShardedLayers::after_backward(size_t index) {
  groups_[index]->reshard();
  groups_[index]->start_reduce(last_micro_batch_);
  reduced_[index] = true;
}

void ShardedLayers::finish_backward() {
  for (size_t index = groups_.size(); index-- > 0;) {
    if (!reduced_[index]) after_backward(index);
    reduced_[index] = false;
  }
  if (!last_micro_batch_) return;
  for (size_t index = groups_.size(); index-- > 0;) groups_[index]->wait_for_reduce();
}

void ShardedLayers::reshard_all() {
  for (ShardedParameterGroup* group : groups_) group->reshard();
}

}  // namespace strata::sharding
