// SPDX-License-Identifier: MIT
// capped_loss: the loss of a chunk of logits that get a soft cap first, for levels aten, aot_inductor and cuda.
#pragma once

#include <ATen/ops/empty.h>

#include <functional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/softcap.h"

namespace strata::kernels {

using LossOfLogits = std::function<CrossEntropyOp::Forward>;

// Returns `loss` if softcap is 0. Otherwise the first `classes` columns of logits get the cap in place, and columns
// after them stay as they are. The gradient is that of the logits before the cap, which are copied for it.
inline LossOfLogits capped_loss(const LossOfLogits& loss, double softcap, int64_t classes) {
  if (softcap == 0) return loss;
  return [=](const Tensor& logits, const Tensor& targets, const Tensor& scale, const CrossEntropyOp::Rule& rule,
             bool with_gradient) {
    const Tensor of_classes = logits.narrow(1, 0, classes);
    Tensor before;
    if (with_gradient) before = at::empty(of_classes.sizes(), logits.options()).copy_(of_classes);
    softcap_into(of_classes, of_classes, softcap);
    const CrossEntropyOp::Output output = loss(logits, targets, scale, rule, with_gradient);
    if (with_gradient) {
      const Tensor gradient = output.logit_gradient.narrow(1, 0, classes);
      softcap_gradient_into(gradient, gradient, before, softcap);
    }
    return output;
  };
}

}  // namespace strata::kernels
