// SPDX-License-Identifier: MIT
// SwigluShape: the sizes of swiglu.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct SwigluShape {
  int64_t rows, width;  // sizes of y; a row of gate_up is twice as wide
  Activation kind = Activation::silu;

  bool operator==(const SwigluShape&) const = default;
  std::string_view op() const { return "swiglu"; }
  std::string_view key() const { return "activation"; }
  std::string text() const {
    return sizes_text({rows, width}) + (kind == Activation::silu ? "" : " " + std::string(name(kind)));
  }
  Work forward_work(double element_bytes) const { return {3 * double(rows) * double(width) * element_bytes, 0}; }
  Work backward_work(double element_bytes) const { return {5 * double(rows) * double(width) * element_bytes, 0}; }
};

}  // namespace strata::kernels
