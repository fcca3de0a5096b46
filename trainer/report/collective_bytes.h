// SPDX-License-Identifier: MIT
// The size of a collective, as traces of steps and counts of steps report it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sharding/communication/collective.h"

namespace strata::trainer {

// Returns the bytes of the larger of the two tensors of this rank: an all-gather of n ranks has n times its input.
inline int64_t collective_bytes(const sharding::Collective& collective) {
  const auto bytes_of = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.element_size()) : 0;
  };
  return std::max(bytes_of(collective.output), bytes_of(collective.input));
}

}  // namespace strata::trainer
