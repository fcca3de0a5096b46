// SPDX-License-Identifier: MIT
// RmsNormRotaryShape: the sizes of rms_norm_rotary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct RmsNormRotaryShape {
  int64_t batch, positions, heads, key_value_heads, head_width;

  bool operator==(const RmsNormRotaryShape&) const = default;
  std::string_view op() const { return "rms_norm_rotary"; }
  std::string_view key() const { return "rotary"; }
  std::string text() const { return heads_text(batch, positions, heads, key_value_heads, head_width); }
  // The result is a new tensor, so v is copied.
  Work forward_work(double element_bytes) const {
    return {2 * columns(heads + 2 * key_value_heads) * element_bytes + read_beside(element_bytes), 0};
  }
  // Reads the gradient and the input of q and k, and writes the gradient. The gradient of v stays where it is.
  Work backward_work(double element_bytes) const {
    return {3 * columns(heads + key_value_heads) * element_bytes + read_beside(element_bytes), 0};
  }

 private:
  double columns(int64_t head_count) const { return double(batch * positions * head_width) * double(head_count); }
  // Two fp32 tables of half a head, and two weights.
  double read_beside(double element_bytes) const {
    return double(positions * head_width) * 4 + 2 * double(head_width) * element_bytes;
  }
};

}  // namespace strata::kernels
