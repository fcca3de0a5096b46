// SPDX-License-Identifier: MIT
// attention_by_loops: attention and its gradients in fp64, by loops over pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/attention/random_attention.h"

namespace strata::kernels {

// Whether a query sees a key, [B, Q, T] of 0 and 1. The result and the gradients of queries and sinks have one of them,
// the gradients of keys and values the other. They differ only in a wrong kernel, which reads two lists of tiles.
struct VisiblePairs {
  std::vector<uint8_t> by_query, by_key;

  bool operator==(const VisiblePairs&) const = default;
};

// By the definition of the pattern, pair by pair.
VisiblePairs visible_pairs(const RandomAttention& call);

// The leaves are those of the call in fp64, and grad_y is [B, Q, H * D]. Returns y and the gradients of all leaves.
std::vector<Tensor> attention_by_loops(const RandomAttention& call, const std::vector<Tensor>& leaves,
                                       const Tensor& grad_y, const VisiblePairs& visible);

}  // namespace strata::kernels
