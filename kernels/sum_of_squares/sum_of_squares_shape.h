// SPDX-License-Identifier: MIT
// SumOfSquaresShape: the elements whose squares one call of sum_of_squares adds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct SumOfSquaresShape {
  int64_t elements;

  bool operator==(const SumOfSquaresShape&) const = default;
  std::string_view op() const { return "sum_of_squares"; }
  std::string text() const { return std::to_string(elements); }
  Work forward_work(double element_bytes) const { return {double(elements) * element_bytes, 0}; }
  Work backward_work(double) const { return {}; }
};

}  // namespace strata::kernels
