// SPDX-License-Identifier: MIT
// attention: y = softmax(q k^T / sqrt(D)) v for every head, over the positions that a mask lets a position see.
// With K < H key and value heads, H / K consecutive query heads share one of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// What a position sees: nothing outside of its row, and of its document.
struct AttentionMask {
  bool causal = false;  // nothing that comes after it
  int64_t window = 0;   // when causal: itself and the window - 1 positions before it; 0: all that come before it
  // Packed documents, int32 [documents + 1]: where each begins, and last where the last one ends, with the B * T
  // positions counted one after another. The first is 0, the last is B * T, every row begins a document; some may be
  // empty. Checked on the CPU; on GPUs the reader of data answers for it. Undefined: every row is one document.
  Tensor document_offsets = {};
};

// qkv [B, T, (H + 2K) * D] packed: H query heads, K key heads, K value heads -> [B, T, H * D]. Windows and documents
// exist at the levels aten, torchscript and cuda.
Tensor attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads, const AttentionMask& mask, Level level);

struct AttentionOp {
  static constexpr std::string_view kName = "attention";
  struct Shape {
    int64_t heads, key_value_heads;
    AttentionMask mask;
  };
  struct Output {
    Tensor y, logsumexp;  // of the scaled scores, saved for backward; [B, H, T], or in the order of the level
  };
  using Forward = Output(const Tensor& qkv, const Shape& shape);
  using Backward = Tensor(const Tensor& grad_y, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                          const Shape& shape);
  static const KernelTable<AttentionOp> kKernels;
};

AttentionOp::Forward attention_forward_triton;
AttentionOp::Backward attention_backward_triton;
// By cuDNN, which takes BFloat16 and Half and head widths that are multiples of 8 up to 128. The backward adds up the
// queries' gradient in an order that varies, unless at::globalContext().deterministicAlgorithms(): then its workspace
// is 2 B H T^2 bytes.
AttentionOp::Forward attention_forward_cuda;
AttentionOp::Backward attention_backward_cuda;

}  // namespace strata::kernels
