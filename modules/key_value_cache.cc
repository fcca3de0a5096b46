// SPDX-License-Identifier: MIT
#include "modules/key_value_cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "modules/config/block_config.h"

namespace strata::modules {

KeyValueCache KeyValueCache::for_prompt(int64_t row, int64_t length) const {
  KeyValueCache one{.positions = at::arange(length, positions.options()).unsqueeze(0)};
  for (const kernels::CachedKeys& layer : layers) {
    one.layers.push_back({layer.key.narrow(0, row, 1), layer.value.narrow(0, row, 1)});
  }
  return one;
}

// Zeros, because a share of 0 does not hide a value that is not finite.
KeyValueCache key_value_cache(const TransformerConfig& config, int64_t batch, int64_t positions,
                              const at::TensorOptions& options) {
  KeyValueCache cache{.positions = at::zeros({batch, 1}, options.dtype(at::kLong))};
  for (const kernels::Pattern& pattern : block_config(config).attention) {
    const std::vector<int64_t> shape = {batch, config.key_value_head_count(), kernels::slots_of(pattern, positions),
                                        config.width_of_head()};
    cache.layers.push_back({at::zeros(shape, options), at::zeros(shape, options)});
  }
  return cache;
}

}  // namespace strata::modules
