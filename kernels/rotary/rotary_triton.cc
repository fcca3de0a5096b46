// SPDX-License-Identifier: MIT
// Level triton of rotary: calls the kernel of rotary_triton.py with tensors.
#include "kernels/rotary/rotary.h"
#include "kernels/rotary/rotary_triton_kernels.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxHalf = 128;

Tensor rotate(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads,
              double direction) {
  const int64_t half = cosine.size(1), positions = qkv.size(1);
  require(half <= kMaxHalf, RotaryOp::kName, Level::triton, "heads are ", 2 * half, " wide, expected at most ",
          2 * kMaxHalf);
  launch_rotary_triton(qkv, cosine.contiguous(), sine.contiguous(), positions, heads + key_value_heads, half,
                       qkv.size(2), direction, qkv.size(0) * positions);
  qkv.unsafeGetTensorImpl()->bump_version();  // makes autograd report an error if qkv was saved for another backward
  return qkv;
}

}  // namespace

Tensor rotary_forward_triton(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                             int64_t key_value_heads) {
  return rotate(std::move(qkv), cosine, sine, heads, key_value_heads, 1.0);
}

Tensor rotary_backward_triton(Tensor grad_qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                              int64_t key_value_heads) {
  return rotate(std::move(grad_qkv), cosine, sine, heads, key_value_heads, -1.0);
}

}  // namespace strata::kernels
