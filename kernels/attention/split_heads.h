// SPDX-License-Identifier: MIT
// Strided views of the packed tensors of attention by head, without a copy.
// B batch, T positions, H query heads, K key and value heads, G = H / K query heads per group, D head width
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

// Query head k * G + g attends to key and value head k.
struct Heads {
  Tensor query_BKGTD, key_BKTD, value_BKTD;
};

inline Heads split_heads(const Tensor& qkv, const AttentionOp::Shape& shape) {
  const int64_t heads = shape.heads, key_value_heads = shape.key_value_heads;
  const Tensor by_head = qkv.unflatten(2, {heads + 2 * key_value_heads, -1}).transpose(1, 2);
  return {by_head.narrow(1, 0, heads).unflatten(1, {key_value_heads, heads / key_value_heads}),
          by_head.narrow(1, heads, key_value_heads), by_head.narrow(1, heads + key_value_heads, key_value_heads)};
}

// Views [B, T, H * D] as [B, K, G, T, D].
inline Tensor split_output(const Tensor& y, const AttentionOp::Shape& shape) {
  return y.unflatten(2, {shape.key_value_heads, shape.heads / shape.key_value_heads, -1}).permute({0, 2, 3, 1, 4});
}

}  // namespace strata::kernels
