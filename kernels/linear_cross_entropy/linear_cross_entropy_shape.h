// SPDX-License-Identifier: MIT
// LinearCrossEntropyShape: the sizes of linear_cross_entropy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct LinearCrossEntropyShape {
  int64_t rows, inputs, classes;

  bool operator==(const LinearCrossEntropyShape&) const = default;
  std::string_view op() const { return "linear_cross_entropy"; }
  std::string text() const { return sizes_text({rows, inputs}) + "->" + std::to_string(classes); }
  // The forward computes both gradients, the one of the weight in fp32. The backward multiplies them by a number.
  Work forward_work(double element_bytes) const {
    return {
        double(rows) * kIndexBytes + 2 * double(rows) * double(inputs) * element_bytes + weight() * (element_bytes + 4),
        6 * double(rows) * weight()};
  }
  Work backward_work(double element_bytes) const {
    return {2 * double(rows) * double(inputs) * element_bytes + weight() * (4 + element_bytes), 0};
  }

 private:
  double weight() const { return double(classes) * double(inputs); }
};

}  // namespace strata::kernels
