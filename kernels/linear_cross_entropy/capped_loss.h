// SPDX-License-Identifier: MIT
// capped_loss: the loss of a chunk of logits that get a soft cap first, for levels aten, aot_inductor and cuda.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <functional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/softcap.h"

namespace strata::kernels {

using LossOfLogits = std::function<CrossEntropyOp::Forward>;

// Returns `loss` if softcap is 0. Otherwise the first `classes` columns of logits get the cap, and columns after them
// stay as they are. Capped logits are in fp32 or wider: the largest of them are next to each other, and 16 bits would
// round them by more than what is between them. The gradient is the gradient of the logits before the cap, and is
// written over them.
inline LossOfLogits capped_loss(const LossOfLogits& loss, double softcap, int64_t classes) {
  if (softcap == 0) return loss;
  return [=](const Tensor& logits, const Tensor& targets, const Tensor& scale, const CrossEntropyOp::Rule& rule,
             bool with_gradient) -> CrossEntropyOp::Output {
    const auto wide = c10::promoteTypes(logits.scalar_type(), at::kFloat);
    const int64_t more = logits.size(1) - classes;
    const Tensor capped = at::empty(logits.sizes(), logits.options().dtype(wide));
    const Tensor class_logits = logits.narrow(1, 0, classes), others = logits.narrow(1, classes, more);
    softcap_into(capped.narrow(1, 0, classes), class_logits, softcap);
    if (more > 0) capped.narrow(1, classes, more).copy_(others);
    const CrossEntropyOp::Output output = loss(capped, targets, scale, rule, with_gradient);
    if (!with_gradient) return output;
    softcap_gradient_into(class_logits, output.logit_gradient.narrow(1, 0, classes), class_logits, softcap);
    if (more > 0) others.zero_();
    return {output.loss, logits};
  };
}

}  // namespace strata::kernels
