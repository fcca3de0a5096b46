// SPDX-License-Identifier: MIT
// Weights in a narrower type are those that are nearest, and a finite number that would become infinite is refused.
#include "tools/weights/rounded_weight.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/errors.h"

namespace strata::tools {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> rounded(const std::vector<float>& values, at::ScalarType type) {
  const at::Tensor result = rounded_weight("a", at::tensor(values), type);
  EXPECT_EQ(result.scalar_type(), type);
  const at::Tensor wide = result.to(at::kFloat);
  return {wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel()};
}

// Returns the error, or an empty text.
std::string error_of(const std::vector<float>& values, at::ScalarType type) {
  try {
    rounded(values, type);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::numerics);
    return error.what();
  }
  return "";
}

// The numbers around 1 have 10 and 7 bits after the point, and ties go to the even one.
TEST(RoundedWeight, IsTheNearestNumber) {
  EXPECT_EQ(rounded({1 + 0x1p-11F, 1 + 0x3p-11F, -3e-8F}, at::kHalf), (std::vector<float>{1, 1 + 0x1p-9F, -0x1p-24F}));
  EXPECT_EQ(rounded({1 + 0x1p-8F, 1 + 0x3p-8F, 1e30F}, at::kBFloat16),
            (std::vector<float>{1, 1 + 0x1p-6F, 0x1.94p99F}));
  EXPECT_EQ(rounded({0.1F, 3e38F}, at::kFloat), (std::vector<float>{0.1F, 3e38F}));
}

// A number at half a step above the largest one, or more, becomes infinite.
TEST(RoundedWeight, RefusesFiniteNumbersThatBecomeInfinite) {
  EXPECT_EQ(rounded({65504, -65519}, at::kHalf), (std::vector<float>{65504, -65504}));
  EXPECT_EQ(error_of({1, 65520, -70000}, at::kHalf),
            "a: 2 of 3 numbers are too large for float16, up to 70000; expected at most 65504; choose a type with a "
            "wider range");
  EXPECT_EQ(rounded({0x1.fep127F, -0x1.fefp127F}, at::kBFloat16), (std::vector<float>{0x1.fep127F, -0x1.fep127F}));
  EXPECT_EQ(error_of({0x1.ffp127F, 1}, at::kBFloat16),
            "a: 1 of 2 numbers are too large for bfloat16, up to 3.39617753e+38; expected at most 3.39e38; choose a "
            "type with a wider range");
}

// A model that has diverged can still be exported and looked at.
TEST(RoundedWeight, LetsNanAndInfinityPass) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const std::vector<float> result = rounded({kInfinity, kNan, -kInfinity, 2}, type);
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_EQ((std::vector<float>{result[0], result[2], result[3]}), (std::vector<float>{kInfinity, -kInfinity, 2}));
  }
  EXPECT_EQ(error_of({kInfinity, 1e5F, kNan}, at::kHalf).substr(0, 15), "a: 1 of 3 numbe");
}

}  // namespace
}  // namespace strata::tools
