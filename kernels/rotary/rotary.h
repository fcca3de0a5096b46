// SPDX-License-Identifier: MIT
// rotary: rotates pairs of elements of every query and key head by an angle that grows with the position (Su et al.
// 2021, in "rotate-half" order). With x1, x2 the halves of a head at position t, and c, s the rows t of cosine and
// sine:
//   y1 = x1 c - x2 s,  y2 = x2 c + x1 s
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// rotary(qkv, cosine, sine, heads, key_value_heads, level): y1 = x1 c - x2 s, y2 = x2 c + x1 s for the halves x1, x2 of
// every query and key head; may overwrite qkv
//
// qkv [B, T, (H + 2K) * D] holds H query heads, K key heads and K value heads; value heads stay unchanged. cosine and
// sine are fp32 [T, D/2]. Returns a tensor with the shape and dtype of qkv. May overwrite qkv, so the caller must not
// use it afterwards. Saves cosine and sine for backward. Throws a ValueError if a shape, dtype or device does not
// match, or at level triton if D > 256.
Tensor rotary(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads,
              Level level);

struct RotaryOp {
  static constexpr std::string_view kName = "rotary";
  // qkv is contiguous and may be overwritten and returned. The backward rotates the gradient by the negative angles.
  using Forward = Tensor(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads);
  using Backward = Tensor(Tensor grad_qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                          int64_t key_value_heads);
  static const KernelTable<RotaryOp> kKernels;
};

RotaryOp::Forward rotary_forward_triton;
RotaryOp::Backward rotary_backward_triton;
RotaryOp::Forward rotary_forward_cuda;
RotaryOp::Backward rotary_backward_cuda;

using RotaryOps = OpList<RotaryOp>;

}  // namespace strata::kernels
