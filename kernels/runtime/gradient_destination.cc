// SPDX-License-Identifier: MIT
#include "kernels/runtime/gradient_destination.h"

#include <ATen/ops/alias.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The destination lies in the metadata of the weight's own TensorImpl, which LibTorch has for backends. Detached
// tensors and aliases, which copy the metadata, do not get it.
struct Registered final : c10::BackendMeta {
  explicit Registered(GradientDestinationSource given) : destination(std::move(given)) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override { return {}; }

  const GradientDestinationSource destination;
};

struct Accumulate : torch::autograd::Function<Accumulate> {
  static Tensor forward(AutogradContext* context, const Tensor& weight) {
    context->save_for_backward({weight});
    return at::alias(weight);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor weight = context->get_saved_variables()[0];
    return {accumulate(gradients[0], take_gradient_destination(weight))};
  }
};

}  // namespace

void set_gradient_destination(const Tensor& weight, GradientDestinationSource destination) {
  weight.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Registered>(std::move(destination)));
}

void clear_gradient_destination(const Tensor& weight) { weight.unsafeGetTensorImpl()->set_backend_meta({}); }

GradientDestination take_gradient_destination(const Tensor& weight) {
  if (!weight.defined()) return {};
  const auto* registered = dynamic_cast<const Registered*>(weight.unsafeGetTensorImpl()->get_backend_meta());
  return registered != nullptr ? registered->destination() : GradientDestination{};
}

Tensor with_gradient_destination(const Tensor& weight) {
  return weight.defined() && weight.requires_grad() ? Accumulate::apply(weight) : weight;
}

Tensor accumulate(const Tensor& gradient, const GradientDestination& where) {
  if (!where.into.defined()) return gradient;
  if (where.add) {
    where.into.add_(gradient);
  } else {
    where.into.copy_(gradient);
  }
  return {};
}

}  // namespace strata::kernels
