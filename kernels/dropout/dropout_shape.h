// SPDX-License-Identifier: MIT
// DropoutShape: the sizes of dropout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct DropoutShape {
  int64_t rows, width;

  bool operator==(const DropoutShape&) const = default;
  std::string_view op() const { return "dropout"; }
  std::string text() const { return sizes_text({rows, width}); }
  Work forward_work(double element_bytes) const { return {2 * double(rows) * double(width) * element_bytes, 0}; }
  Work backward_work(double element_bytes) const { return {2 * double(rows) * double(width) * element_bytes, 0}; }
};

}  // namespace strata::kernels
