// SPDX-License-Identifier: MIT
// attention_by_loops: attention and its gradients in fp64, by loops over pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/attention/random_attention.h"

namespace strata::kernels {

// Two masks [B, Q, T], 1 where the query sees the key. A kernel reads a list of tiles by query for the result and the
// gradients of queries and sinks, and a list by key for the gradients of keys and values. Only in a wrong kernel do
// the two masks differ.
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
