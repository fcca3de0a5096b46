// SPDX-License-Identifier: MIT
// rms_norm_rotary: RMSNorm of every query and key head (Henry et al. 2020, as in Qwen3 and Gemma 3), then rotary of the
// result (kernels/rotary/rotary.h), in one pass over packed queries, keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// The weights of the norms, [D] each and of the dtype of qkv.
struct HeadNorms {
  Tensor query, key;
};

// rms_norm_rotary(qkv, norms, cosine, sine, heads, key_value_heads, eps, level): rotary of rms_norm of every query and
// key head
//
// qkv [B, T, (H + 2K) * D] holds H query heads, K key heads and K value heads. Each query and key head is normalized
// over its D elements and multiplied by its weight, then rotated by cosine and sine, which are fp32 [T, D/2]; value
// heads are copied. Only the result is rounded to the dtype of qkv. Returns a new tensor with the shape and dtype of
// qkv. Saves qkv, the weights, cosine and sine for backward. Throws a ValueError if a shape, dtype or device does not
// match, or at level triton if D > 256.
Tensor rms_norm_rotary(const Tensor& qkv, const HeadNorms& norms, const Tensor& cosine, const Tensor& sine,
                       int64_t heads, int64_t key_value_heads, double eps, Level level);

struct RmsNormRotaryOp {
  static constexpr std::string_view kName = "rms_norm_rotary";
  // The arguments of a forward and of a backward; all tensors are contiguous.
  struct Arguments {
    Tensor qkv;
    HeadNorms norms;
    Tensor cosine, sine;
    int64_t heads, key_value_heads;
    double eps;

    int64_t all_heads() const { return heads + 2 * key_value_heads; }
    int64_t rotated_heads() const { return heads + key_value_heads; }
    int64_t head_width() const { return qkv.size(2) / all_heads(); }
    int64_t rows() const { return qkv.size(0) * qkv.size(1); }  // tokens
  };
  struct Gradient {
    Tensor qkv, query, key;  // a weight's gradient is undefined if it was written into a buffer
  };
  struct Destinations {
    GradientDestination query, key;
  };
  using Forward = Tensor(const Arguments& arguments);
  // grad_y is contiguous and may be overwritten and returned. The rstd of each head is computed again from qkv.
  using Backward = Gradient(Tensor grad_y, const Arguments& arguments, const Destinations& into);
  static const KernelTable<RmsNormRotaryOp> kKernels;
};

RmsNormRotaryOp::Forward rms_norm_rotary_forward_triton;
RmsNormRotaryOp::Backward rms_norm_rotary_backward_triton;
RmsNormRotaryOp::Forward rms_norm_rotary_forward_cuda;
RmsNormRotaryOp::Backward rms_norm_rotary_backward_cuda;

using RmsNormRotaryOps = OpList<RmsNormRotaryOp>;

}  // namespace strata::kernels
