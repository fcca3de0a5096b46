// SPDX-License-Identifier: MIT
// Logits whose rows begin at 16-byte boundaries, for a vocabulary that is no multiple of 64 (GPT-2: 50257). On a GPU,
// matrix products and reads of rows that begin elsewhere take about twice as long.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/level.h"

namespace strata::modules {

using at::Tensor;

// The number of classes to add for a head of [classes, D]: none on CPUs and for few classes.
int64_t padding_classes(const Tensor& weight);

// hidden [N, D] and weight [V, D] -> logits [N, V + padding], with a soft cap unless it is 0. The logits of the padding
// classes are -infinity, so their probability is 0 and their gradient too, unless labels are smoothed. Copies the
// weight, and its gradient once.
Tensor padded_logits(const Tensor& hidden, const Tensor& weight, int64_t padding, double softcap, kernels::Level level);

}  // namespace strata::modules
