// SPDX-License-Identifier: MIT
// The keys and values of the tokens so far, in each layer of a language model. With it in the context of a step, a
// model computes new tokens only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "modules/config/model_config.h"

namespace strata::modules {

using at::Tensor;

// A step is a whole prompt, from position 0 on and alone in its batch, or one token in each row. RotaryTables have a
// row for each token then, as with packed documents.
struct KeyValueCache {
  std::vector<kernels::CachedKeys> layers = {};
  Tensor positions = {};  // int64 [B, T]: of the tokens of this step

  // Returns the cache of one row for a prompt of `length` tokens. It shares the memory of this one.
  KeyValueCache for_prompt(int64_t row, int64_t length) const;
};

// Allocates a cache for rows of so many positions, whose next position is 0. A layer with a window keeps only its
// reach.
KeyValueCache key_value_cache(const TransformerConfig& config, int64_t batch, int64_t positions,
                              const at::TensorOptions& options);

}  // namespace strata::modules
