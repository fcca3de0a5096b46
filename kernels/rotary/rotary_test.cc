// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/rotary/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Rotary) {
  const int64_t positions = 3, heads = 2, key_value_heads = 1, half = 2, all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(positions * all_heads * 2 * half);
  Plain cosine, sine, expected = qkv;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t k = 0; k < half; ++k) {
      const double angle = 0.5 * static_cast<double>(t * (k + 1));
      cosine.push_back(static_cast<float>(std::cos(angle)));
      sine.push_back(static_cast<float>(std::sin(angle)));
      for (int64_t head = 0; head < heads + key_value_heads; ++head) {
        const int64_t first = ((t * all_heads + head) * 2) * half + k, second = first + half;
        expected[first] = qkv[first] * cosine.back() - qkv[second] * sine.back();
        expected[second] = qkv[second] * cosine.back() + qkv[first] * sine.back();
      }
    }
  }
  const Tensor c = tensor(cosine, {positions, half}).to(at::kFloat), s = tensor(sine, {positions, half}).to(at::kFloat);
  expect_equal(rotary(tensor(qkv, {1, positions, all_heads * 2 * half}), c, s, heads, key_value_heads, kFormulaLevel),
               expected);
}

}  // namespace
}  // namespace strata::kernels
