// SPDX-License-Identifier: MIT
// Level triton of rms_norm_rotary: calls the kernels of rms_norm_rotary_triton.py with tensors.
#include <ATen/ops/empty.h>

#include "kernels/cuda/partial_sums.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary_triton_kernels.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxHalf = 128;

void check_width(const RmsNormRotaryOp::Arguments& a) {
  require(a.head_width() <= 2 * kMaxHalf, RmsNormRotaryOp::kName, Level::triton, "heads are ", a.head_width(),
          " wide, expected at most ", 2 * kMaxHalf);
}

}  // namespace

Tensor rms_norm_rotary_forward_triton(const RmsNormRotaryOp::Arguments& a) {
  check_width(a);
  const Tensor y = at::empty(a.qkv.sizes(), a.qkv.options());
  launch_rms_norm_rotary_forward_triton(a.qkv, a.norms.query, a.norms.key, a.cosine, a.sine, y,
                                        a.rows() * a.all_heads(), a.qkv.size(1), a.heads, a.key_value_heads,
                                        a.head_width() / 2, a.eps);
  return y;
}

RmsNormRotaryOp::Gradient rms_norm_rotary_backward_triton(Tensor grad_y, const RmsNormRotaryOp::Arguments& a,
                                                          const RmsNormRotaryOp::Destinations& into) {
  check_width(a);
  const auto differentiate = [&](int64_t first_head, int64_t heads_per_row, const Tensor& weight,
                                 const GradientDestination& where) {
    const int64_t count = a.rows() * heads_per_row;
    const Tensor partials =
        at::empty({partial_sum_programs(count, a.head_width()), a.head_width()}, a.qkv.options().dtype(at::kFloat));
    launch_rms_norm_rotary_backward_triton(grad_y, a.qkv, weight, a.cosine, a.sine, partials, count, a.qkv.size(1),
                                           first_head, heads_per_row, a.all_heads(), a.head_width() / 2, a.eps,
                                           partials.size(0));
    return sum_partials(partials, weight, where);
  };
  const Tensor query = differentiate(0, a.heads, a.norms.query, into.query);
  return {grad_y, query, differentiate(a.heads, a.key_value_heads, a.norms.key, into.key)};
}

}  // namespace strata::kernels
