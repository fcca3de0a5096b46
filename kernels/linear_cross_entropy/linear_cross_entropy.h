// SPDX-License-Identifier: MIT
// linear_cross_entropy: loss = cross_entropy(hidden weight^T, ...), the head and the loss of a language model in one
// op. With a softcap, each logit x becomes softcap * tanh(x / softcap) before the loss, as in Gemma 2 (2024). Levels
// aten, aot_inductor and cuda work on chunks of rows, so that only the logits of one chunk are in memory. Their forward
// also computes both gradients. Level torchscript computes all logits at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// linear_cross_entropy(hidden, weight, targets, scale, ignore_index, label_smoothing, softcap, level):
// loss = cross_entropy(softcap * tanh(hidden weight^T / softcap), ...) without the logits of all rows in memory
//
// hidden [N, I], weight [V, I], targets int64 [N], scale fp32 0-dim -> loss 0-dim, fp32 or wider. See cross_entropy for
// scale, ignore_index and label_smoothing. softcap 0 is none. Saves weight and the gradients of hidden and weight for
// backward. Throws a ValueError if a shape, dtype or device does not match.
Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& scale,
                            int64_t ignore_index, double label_smoothing, double softcap, Level level);

struct LinearCrossEntropyOp {
  static constexpr std::string_view kName = "linear_cross_entropy";
  struct Rule {
    CrossEntropyOp::Rule loss;
    double softcap;
  };
  struct Output {
    Tensor loss, hidden_gradient, weight_gradient;  // gradients of loss; undefined if not needed
  };
  struct Gradient {
    Tensor hidden, weight;  // weight is undefined if it was written into a buffer
  };
  // weight_gradient is summed over the rows in fp32 or wider.
  using Forward = Output(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& scale,
                         const Rule& rule, bool with_gradient);
  // Returns grad_loss times both gradients. Does not change them and never waits for a device.
  using Backward = Gradient(const Tensor& grad_loss, const Tensor& hidden_gradient, const Tensor& weight_gradient,
                            at::ScalarType weight_type, const GradientDestination& into);
  static const KernelTable<LinearCrossEntropyOp> kKernels;
};

LinearCrossEntropyOp::Forward linear_cross_entropy_forward_cuda;
LinearCrossEntropyOp::Backward linear_cross_entropy_backward_cuda;

using LinearCrossEntropyOps = OpList<LinearCrossEntropyOp>;

}  // namespace strata::kernels
