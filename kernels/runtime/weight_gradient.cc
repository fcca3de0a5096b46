// SPDX-License-Identifier: MIT
#include "kernels/runtime/weight_gradient.h"

#include <ATen/ops/alias.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <unordered_map>

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The weak pointer keeps the address of a freed weight from being reused by another tensor. It does not keep the
// weight's storage.
struct Route {
  c10::weak_intrusive_ptr<c10::TensorImpl> weight;
  WeightGradientTarget target;
};

std::mutex mutex;

std::unordered_map<const c10::TensorImpl*, Route>& routes() {
  static auto* routes = new std::unordered_map<const c10::TensorImpl*, Route>;  // outlives every static tensor
  return *routes;
}

struct Deliver : torch::autograd::Function<Deliver> {
  static Tensor forward(AutogradContext* context, const Tensor& weight) {
    context->save_for_backward({weight});
    return at::alias(weight);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor weight = context->get_saved_variables()[0];
    return {deliver(gradients[0], claim_weight_gradient(weight))};
  }
};

}  // namespace

void route_weight_gradient(const Tensor& weight, WeightGradientTarget target) {
  const std::lock_guard lock(mutex);
  routes().insert_or_assign(
      weight.unsafeGetTensorImpl(),
      Route{c10::weak_intrusive_ptr<c10::TensorImpl>(weight.getIntrusivePtr()), std::move(target)});
}

void unroute_weight_gradient(const Tensor& weight) {
  const std::lock_guard lock(mutex);
  routes().erase(weight.unsafeGetTensorImpl());
}

WeightGradient claim_weight_gradient(const Tensor& weight) {
  if (!weight.defined()) return {};
  WeightGradientTarget target;
  {
    const std::lock_guard lock(mutex);
    const auto found = routes().find(weight.unsafeGetTensorImpl());
    if (found == routes().end()) return {};
    target = found->second.target;
  }
  return target();
}

Tensor deliver_weight_gradient(const Tensor& weight) {
  return weight.defined() && weight.requires_grad() ? Deliver::apply(weight) : weight;
}

Tensor deliver(const Tensor& gradient, const WeightGradient& where) {
  if (!where.into.defined()) return gradient;
  if (where.add) {
    where.into.add_(gradient);
  } else {
    where.into.copy_(gradient);
  }
  return {};
}

}  // namespace strata::kernels
