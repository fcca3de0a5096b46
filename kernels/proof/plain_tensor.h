// SPDX-License-Identifier: MIT
// Converts vectors of doubles to tensors and back, for tests that compute with loops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/runtime/level.h"

namespace strata::kernels {

inline constexpr Level kFormulaLevel = Level::torchscript;

using Plain = std::vector<double>;

// Returns numbers without a pattern between -1.5 and 1.5.
inline Plain ramp(int64_t size, double start = 0.4) {
  Plain values;
  for (int64_t i = 0; i < size; ++i) values.push_back(1.5 * std::sin(start + 2.3 * static_cast<double>(i)));
  return values;
}

inline at::Tensor tensor(const Plain& values, at::IntArrayRef sizes) {
  at::Tensor result = at::empty(sizes, at::kDouble);
  std::memcpy(result.data_ptr(), values.data(), values.size() * sizeof(double));
  return result;
}

inline void expect_equal(const at::Tensor& tensor, const Plain& expected) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(expected.size()));
  const double* values = flat.const_data_ptr<double>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12) << "element " << i;
}

}  // namespace strata::kernels
