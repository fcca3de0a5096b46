// SPDX-License-Identifier: MIT
// Strided views of the packed tensors of attention by head, without a copy.
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads per group, D head width
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// Returns D. qkv holds query, key and value heads, or query heads alone.
inline int64_t head_width_of(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  return qkv.size(2) / (arguments.heads + (arguments.keys.key_value.defined() ? 0 : 2 * arguments.key_value_heads));
}

// The type in which products of a tensor are added: fp32 or wider.
inline at::ScalarType sum_type(const Tensor& tensor) { return c10::promoteTypes(tensor.scalar_type(), at::kFloat); }

// Query head k * G + g attends to key and value head k.
struct Heads {
  Tensor query_BKGQD, key_BKTD, value_BKTD;
};

// Splits the tensors of a call, or their gradients. key_value is undefined if qkv holds all heads.
inline Heads split_heads(const Tensor& qkv, const Tensor& key_value, const AttentionOp::Arguments& arguments) {
  const int64_t heads = arguments.heads, key_value_heads = arguments.key_value_heads,
                head_width = head_width_of(qkv, arguments);
  const Tensor first = qkv.unflatten(2, {-1, head_width}).transpose(1, 2);
  const Tensor both = key_value.defined() ? key_value.unflatten(2, {-1, head_width}).transpose(1, 2)
                                          : first.narrow(1, heads, 2 * key_value_heads);
  return {first.narrow(1, 0, heads).unflatten(1, {key_value_heads, heads / key_value_heads}),
          both.narrow(1, 0, key_value_heads), both.narrow(1, key_value_heads, key_value_heads)};
}
inline Heads split_heads(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  return split_heads(qkv, arguments.keys.key_value, arguments);
}

// Views [B, Q, H * D] as [B, K, G, Q, D].
inline Tensor split_output(const Tensor& y, const AttentionOp::Arguments& arguments) {
  return y.unflatten(2, {arguments.key_value_heads, arguments.heads / arguments.key_value_heads, -1})
      .permute({0, 2, 3, 1, 4});
}

// Returns the gradient of sinks [H], from logsumexp and delta = sum over D of y * grad_y, both [B, H, Q] and fp32 or
// wider, as the gradient is. Equal calls return equal bits.
inline Tensor gradient_of_sinks(const Tensor& sinks, const Tensor& logsumexp, const Tensor& delta) {
  return at::sub(sinks.to(logsumexp.scalar_type()).view({-1, 1}), logsumexp)
      .exp_()
      .mul_(delta)
      .sum(at::IntArrayRef{0, 2})
      .neg_();
}

// Makes a tensor contiguous and 16-byte aligned, because cuDNN and the copy engine read 16 bytes at a time.
inline Tensor readable(const Tensor& tensor) {
  const Tensor rows = tensor.contiguous();
  return reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0 ? rows : rows.clone();
}

// Returns the address of the element `index` of a contiguous tensor.
inline void* element(const Tensor& tensor, int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + index * static_cast<int64_t>(tensor.element_size());
}

// Allocates the gradients of qkv and of keys and values.
inline AttentionOp::Gradient empty_gradient(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  const Tensor& key_value = arguments.keys.key_value;
  return {.qkv = at::empty(qkv.sizes(), qkv.options()),
          .key_value = key_value.defined() ? at::empty(key_value.sizes(), key_value.options()) : Tensor()};
}

}  // namespace strata::kernels
