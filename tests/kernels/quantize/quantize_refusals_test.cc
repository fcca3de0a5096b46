// SPDX-License-Identifier: MIT
// Checks the arguments that quantize and dequantize refuse, word for word.
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/quantize/quantize.h"

namespace strata::kernels {
namespace {

constexpr QuantizedFormat kFp8 = {Element::e4m3, Scaling::tensor}, kBlock = {Element::e5m2, Scaling::block},
                          kMx = {Element::e2m1, Scaling::mx}, kNv = {Element::e2m1, Scaling::nv};
constexpr auto kNearest = Rounding::nearest_even, kStochastic = Rounding::stochastic;

Tensor floats(at::IntArrayRef sizes) { return at::ones(sizes, at::kFloat); }

void expect_refused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was refused, expected: " << words;
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(words), std::string::npos)
        << error.what_without_backtrace();
  }
}

// rounded_to refuses what quantize refuses.
void expect_refused(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                    const std::string& words) {
  expect_refused([&] { quantize(x, format, rounding, key); }, words);
  expect_refused([&] { rounded_to(x, format, rounding, key); }, words);
}

TEST(QuantizeRefuses, WidthsThatBlocksDoNotDivide) {
  expect_refused(floats({2, 100}), kBlock, kNearest, {},
                 "rows are 100 wide, expected a multiple of 128, the block of scaling block");
  expect_refused(floats({2, 48}), kMx, kNearest, {},
                 "rows are 48 wide, expected a multiple of 32, the block of scaling mx");
  expect_refused(floats({2, 40}), kNv, kNearest, {},
                 "rows are 40 wide, expected a multiple of 16, the block of scaling nv");
}

TEST(QuantizeRefuses, OtherTypesAndSizes) {
  const std::string expected = ", expected Float, BFloat16 or Half [rows, width]";
  expect_refused(at::ones({2, 32}, at::kDouble), kMx, kNearest, {}, "x is Double [2, 32]" + expected);
  expect_refused(at::ones({2, 32}, at::kInt), kMx, kNearest, {}, "x is Int [2, 32]" + expected);
  expect_refused(floats({2, 3, 32}), kMx, kNearest, {}, "x is Float [2, 3, 32]" + expected);
}

TEST(QuantizeRefuses, FormatsWithoutAName) {
  expect_refused(floats({2, 32}), {Element::e2m1, Scaling::row}, kNearest, {},
                 "scaling row of element e2m1, expected a combination of kNamedFormats");
  expect_refused(floats({2, 32}), {Element::e4m3, Scaling::nv}, kNearest, {}, "scaling nv of element e4m3");
}

TEST(QuantizeRefuses, OtherKeys) {
  const Tensor x = floats({2, 32}), key = at::ones({1}, at::kLong);
  expect_refused(x, kMx, kNearest, key, "a key for rounding to nearest even, expected an undefined tensor");
  expect_refused(x, kMx, kStochastic, {}, "no key for stochastic rounding, expected Long [1] on cpu");
  expect_refused(x, kMx, kStochastic, at::ones({1}, at::kInt), "key is Int [1] on cpu, expected Long [1] on cpu");
  expect_refused(x, kMx, kStochastic, at::ones({2}, at::kLong), "key is Long [2] on cpu, expected Long [1] on cpu");
  expect_refused(x, kMx, kStochastic, key.to(at::kMeta), "key is Long [1] on meta, expected Long [1] on cpu");
}

TEST(DequantizeRefuses, PartsOfAnotherFormat) {
  const Tensor x = floats({2, 64});
  const Quantized mx = quantize(x, kMx, kNearest, {}), nv = quantize(x, kNv, kNearest, {});
  const auto refused = [](const Quantized& quantized, QuantizedFormat format, at::ScalarType type,
                          const std::string& words) {
    expect_refused([&] { dequantize(quantized, format, type); }, words);
  };
  refused({x, mx.scales, {}}, kMx, at::kFloat, "codes are Float [2, 64], expected Byte [rows, width]");
  refused(mx, kFp8, at::kFloat, "scales are Byte [2, 2], expected Float [1, 1] for scaling tensor");
  refused(mx, kNv, at::kFloat, "scales are Byte [2, 2], expected Byte [2, 4] for scaling nv");
  refused({nv.codes, nv.scales, {}}, kNv, at::kFloat,
          "tensor_scale is undefined, expected a Float scalar for scaling nv");
  refused({mx.codes, mx.scales, nv.tensor_scale}, kMx, at::kFloat,
          "tensor_scale is Float [], expected an undefined tensor for scaling mx");
  refused({nv.codes, nv.scales, at::ones({}, at::kHalf)}, kNv, at::kFloat,
          "tensor_scale is Half [], expected a Float scalar for scaling nv");
  refused(mx, kBlock, at::kFloat, "rows are 64 wide, expected a multiple of 128");
  refused(mx, kMx, at::kDouble, "type is Double, expected Float, BFloat16 or Half");
}

}  // namespace
}  // namespace strata::kernels
