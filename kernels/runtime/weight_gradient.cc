// SPDX-License-Identifier: MIT
#include "kernels/runtime/weight_gradient.h"

#include <ATen/ops/alias.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The target lies in the metadata of the weight's own TensorImpl, which LibTorch has for backends. Detached tensors and
// aliases, which copy the metadata, do not get it.
struct Sink final : c10::BackendMeta {
  explicit Sink(WeightGradientTarget given) : target(std::move(given)) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override { return {}; }

  const WeightGradientTarget target;
};

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
  weight.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Sink>(std::move(target)));
}

void unroute_weight_gradient(const Tensor& weight) { weight.unsafeGetTensorImpl()->set_backend_meta({}); }

WeightGradient claim_weight_gradient(const Tensor& weight) {
  if (!weight.defined()) return {};
  const auto* sink = dynamic_cast<const Sink*>(weight.unsafeGetTensorImpl()->get_backend_meta());
  return sink != nullptr ? sink->target() : WeightGradient{};
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
