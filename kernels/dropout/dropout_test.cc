// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/dropout/dropout.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

uint32_t mix(uint32_t hash) {
  hash = (hash ^ hash >> 16) * 0x7feb352du;
  hash = (hash ^ hash >> 15) * 0x846ca68bu;
  return hash ^ hash >> 16;
}

TEST(Formula, Dropout) {
  const int64_t rows = 5, columns = 7, first_row = (int64_t{1} << 32) - 2, site = 9;
  const int64_t key = -0x123456789abcdef;
  const double probability = 0.4;
  const Plain x = ramp(rows * columns);
  Plain expected;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t row = first_row + i;
      uint32_t hash = mix(static_cast<uint32_t>(key) ^ 0x9e3779b9u);
      hash = mix(static_cast<uint32_t>(key >> 32) ^ hash);
      hash = mix(static_cast<uint32_t>(site) ^ hash);
      hash = mix(static_cast<uint32_t>(row) ^ hash);
      hash = mix(static_cast<uint32_t>(row >> 32) ^ hash);
      hash = mix(hash ^ mix(static_cast<uint32_t>(k) + 0x9e3779b9u));
      expected.push_back(hash / 4294967296.0 < probability ? 0.0 : x[i * columns + k] / (1 - probability));
    }
  }
  const Tensor key_tensor = at::full({1}, key, at::kLong);
  expect_equal(dropout(tensor(x, {rows, columns}), probability, key_tensor, site, first_row, kFormulaLevel), expected);
}

}  // namespace
}  // namespace strata::kernels
