// SPDX-License-Identifier: MIT
// RotaryShape: the sizes of rotary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct RotaryShape {
  int64_t batch, positions, heads, key_value_heads, head_width;

  bool operator==(const RotaryShape&) const = default;
  std::string_view op() const { return "rotary"; }
  std::string text() const { return heads_text(batch, positions, heads, key_value_heads, head_width); }
  // v is not rotated; there are two fp32 tables of half a head.
  Work forward_work(double element_bytes) const {
    const double rotated = double(batch * positions * head_width) * double(heads + key_value_heads);
    return {2 * rotated * element_bytes + double(positions * head_width) * 4, 0};
  }
  Work backward_work(double element_bytes) const { return forward_work(element_bytes); }
};

}  // namespace strata::kernels
