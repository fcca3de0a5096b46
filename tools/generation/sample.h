// SPDX-License-Identifier: MIT
// Chooses the next token of each row from its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::generation {

using at::Tensor;

struct Sampling {
  double temperature = 0.8;  // 0: the likeliest token; otherwise logits are divided by it
  int64_t top_k = 40;        // choose among this number of likeliest tokens; 0: all
  double top_p = 1;          // and among the fewest of them whose probabilities sum to this
  uint64_t seed = 1;
};

// The token of a row whose likeliest logit is NaN or infinite.
inline constexpr int64_t kNoToken = -1;

// logits [B, V] -> int64 [B]. `number` counts the tokens after the prompts. The random number depends on the seed and
// on `number` only, so a row gives the same token in any batch.
Tensor sample(const Tensor& logits, const Sampling& sampling, int64_t number);

// sample() on GPUs, unless a kernel finds the likeliest tokens. `draw` is the random number, 0 <= draw < 1.
Tensor sample_by_operators(const Tensor& logits, const Sampling& sampling, double draw);

}  // namespace strata::generation
