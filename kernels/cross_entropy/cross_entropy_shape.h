// SPDX-License-Identifier: MIT
// CrossEntropyShape: the sizes of cross_entropy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct CrossEntropyShape {
  int64_t rows, classes;

  bool operator==(const CrossEntropyShape&) const = default;
  std::string_view op() const { return "cross_entropy"; }
  std::string text() const { return sizes_text({rows, classes}); }
  Work forward_work(double element_bytes) const {
    return {double(rows) * kIndexBytes + 2 * double(rows) * double(classes) * element_bytes, 0};
  }
  // The forward computes the gradient in place, so a backward by a factor of 1 has nothing to do.
  Work backward_work(double) const { return {}; }
};

}  // namespace strata::kernels
