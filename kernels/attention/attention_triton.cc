// SPDX-License-Identifier: MIT
// Level triton of attention: calls the kernels of attention_triton.py with tensors.
#include <ATen/ops/empty.h>

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_triton_kernels.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxHeadWidth = 128;

}  // namespace

AttentionOp::Output attention_forward_triton(const Tensor& qkv, const AttentionOp::Shape& shape) {
  const int64_t heads = shape.heads, key_value_heads = shape.key_value_heads;
  const bool causal = shape.mask.pattern.kind == Pattern::Kind::causal;
  const int64_t batch = qkv.size(0), positions = qkv.size(1), head_width = qkv.size(2) / (heads + 2 * key_value_heads);
  require(head_width <= kMaxHeadWidth, AttentionOp::kName, Level::triton, "heads are ", head_width,
          " wide, expected at most ", kMaxHeadWidth);
  const Tensor y = at::empty({batch, positions, heads * head_width}, qkv.options());
  const Tensor logsumexp = at::empty({batch, heads, positions}, qkv.options().dtype(at::kFloat));
  launch_attention_forward_triton(qkv.contiguous(), y, logsumexp, positions, heads, key_value_heads, head_width,
                                  qkv.size(2), 1.0 / std::sqrt(static_cast<double>(head_width)), causal, batch);
  return {y, logsumexp};
}

Tensor attention_backward_triton(const Tensor& grad_y, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                                 const AttentionOp::Shape& shape) {
  const int64_t heads = shape.heads, key_value_heads = shape.key_value_heads;
  const bool causal = shape.mask.pattern.kind == Pattern::Kind::causal;
  const int64_t batch = qkv.size(0), positions = qkv.size(1), head_width = qkv.size(2) / (heads + 2 * key_value_heads);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_width));
  const Tensor rows = qkv.contiguous(), grad_rows = grad_y.contiguous();
  const Tensor delta = at::empty(logsumexp.sizes(), logsumexp.options()),
               grad_qkv = at::empty(qkv.sizes(), qkv.options());
  launch_attention_products_triton(grad_rows, y, delta, batch * positions * heads, positions, heads, head_width);
  launch_attention_backward_query_triton(rows, grad_rows, logsumexp, delta, grad_qkv, positions, heads, key_value_heads,
                                         head_width, qkv.size(2), scale, causal, batch);
  launch_attention_backward_key_triton(rows, grad_rows, logsumexp, delta, grad_qkv, positions, heads, key_value_heads,
                                       head_width, qkv.size(2), scale, causal, batch);
  return grad_qkv;
}

}  // namespace strata::kernels
