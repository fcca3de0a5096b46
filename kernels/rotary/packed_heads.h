// SPDX-License-Identifier: MIT
// Functions of the ops that rotate the heads of packed queries, keys and values: rotary and rms_norm_rotary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/call.h"

namespace strata::kernels {

// Checks qkv [B, T, (H + 2K) * D] with an even D, and cosine and sine fp32 [T, D/2] on its device.
inline void require_packed_heads(std::string_view op, Level level, const at::Tensor& qkv, const at::Tensor& cosine,
                                 const at::Tensor& sine, int64_t heads, int64_t key_value_heads) {
  const int64_t all_heads = heads + 2 * key_value_heads;
  require(heads > 0 && key_value_heads > 0, op, level, "heads is ", heads, " and key_value_heads is ", key_value_heads,
          ", expected positive numbers");
  require(qkv.is_floating_point() && qkv.dim() == 3 && qkv.size(2) % (2 * all_heads) == 0, op, level, "qkv is ",
          qkv.scalar_type(), " ", qkv.sizes(), ", expected floating point [B, T, ", all_heads, " * D] with an even D");
  require(cosine.dim() == 2 && cosine.size(0) == qkv.size(1) && cosine.size(1) == qkv.size(2) / all_heads / 2 &&
              cosine.scalar_type() == at::kFloat && cosine.device() == qkv.device(),
          op, level, "cosine is ", cosine.scalar_type(), " ", cosine.sizes(), " on ", cosine.device(),
          ", expected Float [", qkv.size(1), ", ", qkv.size(2) / all_heads / 2, "] on ", qkv.device());
  require_alike(op, level, "cosine", cosine, "sine", sine);
}

// Returns a contiguous gradient that may be overwritten: itself if nothing else refers to it or to a view of it, else a
// copy. Autograd's own accumulation in place makes the same test. A backward of view() also gives a view, whose base
// nothing else refers to.
inline at::Tensor own_gradient(const at::Tensor& gradient) {
  const bool has_base = gradient.is_view() && gradient._base().use_count() == 1;
  const bool is_ours_alone =
      gradient.is_contiguous() && gradient.use_count() == 1 && gradient.storage().use_count() == (has_base ? 2 : 1);
  return is_ours_alone ? gradient : gradient.clone(at::MemoryFormat::Contiguous);
}

}  // namespace strata::kernels
