// SPDX-License-Identifier: MIT
// cross_entropy: loss = scale * sum over rows of -log p(target), with p = softmax(logits). Rows whose target is
// ignore_index count 0. With label smoothing a, -log p(target) becomes -(1 - a) log p(target) - a / V * sum over v of
// log p(v).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// cross_entropy(logits, targets, scale, ignore_index, label_smoothing, level): loss = scale * sum of -log p(target),
// p = softmax(logits); may overwrite logits
//
// logits [N, V], targets int64 [N], scale fp32 0-dim (1 / items of the whole step, times a loss scale) -> loss 0-dim,
// fp32 or wider. If a gradient is needed, the forward computes the gradient of the logits and saves it for backward. A
// level may write this gradient over the logits, so the caller must not use them afterwards. Throws a ValueError if a
// shape, dtype or device does not match or a is not in [0, 1). A target that is no class stops the kernel at level cuda
// and gives NaN at level triton.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& scale, int64_t ignore_index,
                     double label_smoothing, Level level);

struct CrossEntropyOp {
  static constexpr std::string_view kName = "cross_entropy";
  struct Rule {
    int64_t ignore_index;
    double label_smoothing;
  };
  struct Output {
    Tensor loss, logit_gradient;  // d loss / d logits; undefined if it was not needed
  };
  using Forward = Output(const Tensor& logits, const Tensor& targets, const Tensor& scale, const Rule& rule,
                         bool with_gradient);
  // Returns grad_loss * logit_gradient; grad_loss is nearly always 1. With in_place nobody reads logit_gradient again,
  // so a level may overwrite and return it. Otherwise the result is a tensor of its own, because the next backward may
  // overwrite logit_gradient. Never waits for a device.
  using Backward = Tensor(const Tensor& grad_loss, const Tensor& logit_gradient, bool in_place);
  static const KernelTable<CrossEntropyOp> kKernels;

  // Checks the arguments that linear_cross_entropy has too. `rows` [N, ...] are the logits, or what gives them.
  static void check_targets(std::string_view op, const Tensor& rows, const Tensor& targets, const Tensor& scale,
                            double label_smoothing, Level level);
};

CrossEntropyOp::Forward cross_entropy_forward_cuda;
// The same for rows with padding columns after the `classes`. The logits of padding must be so low that its probability
// is 0. No target may be a padding column. The gradient of padding is finite, and has no meaning.
CrossEntropyOp::Output cross_entropy_of_classes_cuda(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                                                     const CrossEntropyOp::Rule& rule, bool with_gradient,
                                                     int64_t classes);
CrossEntropyOp::Backward cross_entropy_backward_cuda;
CrossEntropyOp::Forward cross_entropy_forward_triton;
CrossEntropyOp::Backward cross_entropy_backward_triton;

using CrossEntropyOps = OpList<CrossEntropyOp>;

}  // namespace strata::kernels
