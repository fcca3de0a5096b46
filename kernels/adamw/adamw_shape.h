// SPDX-License-Identifier: MIT
// AdamwShape: the elements that one call of adamw updates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

// An update reads and writes the master weights and two moments in fp32, reads the gradient and writes the compute
// copy. `gradient_bytes` and `copy_bytes` are bytes of an element; copy_bytes 0: there is no compute copy.
inline Work adamw_work(double elements, double gradient_bytes, double copy_bytes) {
  return {elements * (6 * 4 + gradient_bytes + copy_bytes), 0};
}

struct AdamwShape {
  int64_t elements;
  // Bytes of an element of the gradient and of the compute copy; 0: there is no copy; absent: as the dtype.
  std::optional<double> gradient_bytes = {}, copy_bytes = {};

  bool operator==(const AdamwShape&) const = default;
  std::string_view op() const { return "adamw"; }
  std::string text() const { return std::to_string(elements); }
  Work forward_work(double element_bytes) const {
    return adamw_work(double(elements), gradient_bytes.value_or(element_bytes), copy_bytes.value_or(element_bytes));
  }
  Work backward_work(double) const { return {}; }
};

}  // namespace strata::kernels
