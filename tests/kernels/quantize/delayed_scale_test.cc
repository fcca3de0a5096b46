// SPDX-License-Identifier: MIT
// Delayed scales, code by code against loops over all values of an element, and what they record and refuse.
#include "kernels/quantize/delayed_scale.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/standard_formats.h"

namespace strata::kernels {
namespace {

constexpr auto kNearest = Rounding::nearest_even;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor one(double number) { return at::full({1}, number, at::kFloat); }

// What delayed scaling must give: its codes and its scale.
struct Expected {
  std::vector<uint8_t> codes;
  float scale;
};

Expected expected(const Tensor& x, Element element, float past) {
  const float largest = facts_of(element).largest;
  Expected result = {{}, std::max(past / largest, 0x1p-117f)};
  const Tensor values = x.to(at::kFloat).contiguous();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const float value = values.const_data_ptr<float>()[i];
    // Division of two fp32 numbers in double, rounded to fp32, is that of fp32.
    const auto quotient = static_cast<float>(static_cast<double>(value) / static_cast<double>(result.scale));
    result.codes.push_back(nearest_code(std::clamp(quotient, -largest, largest), element));
  }
  return result;
}

std::vector<uint8_t> bytes(const Tensor& codes) {
  const Tensor row = codes.contiguous();
  return {row.const_data_ptr<uint8_t>(), row.const_data_ptr<uint8_t>() + row.numel()};
}

TEST(DelayedScale, IsThatOfTheHistory) {
  at::manual_seed(1);
  const Tensor hard = finite_rows();
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    const QuantizedFormat format = {element, Scaling::tensor};
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const float past : {0x1p-140f, 0x1p-20f, 0.3f, 1.f, 448.f, 1e5f, 1e30f}) {
        // Numbers around the largest of the history, above and below it, and numbers of all sizes.
        for (const Tensor& x : {at::randn({24, 48}).mul_(past).to(type), hard.narrow(0, 440, 9).to(type)}) {
          if (!x.isfinite().all().item<bool>()) continue;
          const Expected wanted = expected(x, element, past);
          const Quantized found = quantize(x, format, kNearest, {}, {one(past), {}});
          EXPECT_EQ(bytes(found.codes), wanted.codes) << name(element) << " " << type << " " << past;
          EXPECT_EQ(found.scales.item<float>(), wanted.scale);
          EXPECT_TRUE(rounded_to(x, format, kNearest, {}, {one(past), {}}).equal(dequantize(found, format, type)));
        }
      }
    }
  }
}

TEST(DelayedScale, LargerNumbersSaturate) {
  const Tensor x = at::tensor({-3.f, 3.f, 1.f, 0.5f}).view({1, 4});
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    const Tensor rounded = rounded_to(x, {element, Scaling::tensor}, kNearest, {}, {one(1), {}});
    EXPECT_TRUE(rounded.equal(at::tensor({-1.f, 1.f, 1.f, 0.5f}).view({1, 4}))) << name(element);
  }
}

TEST(DelayedScale, RecordsTheLargestMagnitudeOfAllTensors) {
  const QuantizedFormat format = {Element::e5m2, Scaling::tensor};
  const DelayedScale scale = {one(7), one(0)};
  const auto round = [&](float largest) {
    const Tensor x = at::zeros({5, 16});
    x[3][7] = largest;
    rounded_to(x, format, kNearest, {}, scale);
    return scale.present.item<float>();
  };
  EXPECT_EQ(round(-2.5), 2.5);
  EXPECT_EQ(round(1), 2.5);
  EXPECT_EQ(round(2.5), 2.5);  // as when a layer is recomputed
  EXPECT_EQ(round(9), 9);
  EXPECT_EQ(scale.past.item<float>(), 7);
}

TEST(DelayedScale, WithoutAHistoryItIsThatOfTheTensor) {
  const QuantizedFormat format = {Element::e4m3, Scaling::tensor};
  const Tensor all = at::cat({finite_rows(), rows_with_lost_numbers()});
  for (int64_t row = 0; row < all.size(0); row += 7) {
    const Tensor x = all.narrow(0, row, 1);
    const DelayedScale scale = {one(0), one(0)};
    const Quantized found = quantize(x, format, kNearest, {}, scale), wanted = quantize(x, format, kNearest, {});
    EXPECT_TRUE(found.codes.equal(wanted.codes)) << row;
    EXPECT_TRUE(found.scales.view(at::kInt).equal(wanted.scales.view(at::kInt))) << row;
    const float recorded = scale.present.item<float>(), amax = x.abs().amax().item<float>();
    EXPECT_TRUE(recorded == amax || (std::isnan(recorded) && std::isnan(amax))) << row << ": " << recorded;
  }
}

TEST(DelayedScale, ShowsLostNumbers) {
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      const Tensor x = at::full({2, 16}, 0.5, at::kFloat);
      x[1][3] = lost;
      const DelayedScale scale = {one(1), one(0)};
      const Tensor rounded = rounded_to(x, {element, Scaling::tensor}, kNearest, {}, scale);
      EXPECT_TRUE(rounded[1][3].isnan().item<bool>()) << lost;
      EXPECT_EQ(rounded.nan_to_num(0.5).eq(0.5).sum().item<int64_t>(), 32) << lost;
      const float recorded = scale.present.item<float>();
      EXPECT_TRUE(std::isnan(lost) ? std::isnan(recorded) : recorded == kInfinity) << lost << ": " << recorded;
    }
  }
}

TEST(DelayedScale, RefusesWhatDoesNotFit) {
  const Tensor x = at::zeros({2, 128});
  const auto expect_refused = [&](Scaling scaling, const DelayedScale& scale, const std::string& words) {
    try {
      rounded_to(x, {Element::e4m3, scaling}, kNearest, {}, scale);
      ADD_FAILURE() << "nothing was refused, expected: " << words;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(words), std::string::npos) << error.what();
    }
  };
  expect_refused(Scaling::row, {one(1), {}}, "quantize: a delayed scale for scaling row, expected tensor");
  expect_refused(Scaling::tensor, {{}, one(0)}, "an amax of a delayed scale is UndefinedType, expected Float [1]");
  expect_refused(Scaling::tensor, {at::zeros({2}), {}}, "expected Float [1] on cpu");
  expect_refused(Scaling::tensor, {one(1), one(0).to(at::kDouble)}, "expected Float [1] on cpu");
  expect_refused(Scaling::tensor, {one(1).to(at::kMeta), {}}, "expected Float [1] on cpu");
}

}  // namespace
}  // namespace strata::kernels
