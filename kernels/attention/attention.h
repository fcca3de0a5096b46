// SPDX-License-Identifier: MIT
// attention: y = softmax(q k^T / sqrt(D)) v for every head; causal: a position sees itself and what is before it.
// With K < H key and value heads, H / K consecutive query heads share one of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// qkv [B, T, (H + 2K) * D] packed: H query heads, K key heads, K value heads -> [B, T, H * D]
Tensor attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads, bool causal, Level level);

struct AttentionOp {
  static constexpr std::string_view kName = "attention";
  struct Shape {
    int64_t heads, key_value_heads;
    bool causal;
  };
  struct Output {
    Tensor y, logsumexp;  // logsumexp [B, H, T] of the scaled scores, saved for backward
  };
  using Forward = Output(const Tensor& qkv, const Shape& shape);
  using Backward = Tensor(const Tensor& grad_y, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                          const Shape& shape);
  static const KernelTable<AttentionOp> kKernels;
};

AttentionOp::Forward attention_forward_triton;
AttentionOp::Backward attention_backward_triton;

}  // namespace strata::kernels
