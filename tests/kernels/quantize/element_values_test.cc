// SPDX-License-Identifier: MIT
// Elements without scales, against the definition of the standards on every number of 16 bits, and against LibTorch.
#include "kernels/quantize/element_values.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/quantize/standard_formats.h"

namespace strata::kernels {
namespace {

constexpr Element kElements[] = {Element::e4m3, Element::e5m2, Element::e3m2, Element::e2m3, Element::e2m1};

// All 2^16 numbers of bf16 or fp16, in fp32.
Tensor all_numbers(at::ScalarType type) {
  return at::arange(1 << 16, at::kInt).to(at::kShort).view(type).to(at::kFloat);
}

// The numbers of codes 0 to 2^bits - 1.
Tensor all_codes(Element element) { return at::arange(1 << facts_of(element).bits(), at::kByte); }

// Equal bits; NaN equals NaN.
bool same(float a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

// The number of inputs whose code or value is not that of the definition.
int64_t differences(const Tensor& x, Element element, Mutation mutation) {
  const Tensor values = rounded_to_element(x, element), codes = codes_of(values, element);
  const std::vector<double> table = all_values(element, mutation);
  int64_t count = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float number = x.const_data_ptr<float>()[i];
    const uint8_t code = nearest_code(number, element, mutation);
    const double value = std::isnan(number) ? number : table[code];
    if (codes.const_data_ptr<uint8_t>()[i] != code || !same(values.const_data_ptr<float>()[i], value)) ++count;
  }
  return count;
}

TEST(Elements, FactsAreThoseOfTheStandards) {
  for (const Element element : kElements) {
    SCOPED_TRACE(name(element));
    const ElementFacts facts = facts_of(element);
    double largest = 0;
    bool has_infinity = false, has_nan = false;
    for (const double value : all_values(element)) {
      has_infinity = has_infinity || std::isinf(value);
      has_nan = has_nan || std::isnan(value);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    EXPECT_EQ(facts.largest, largest);
    EXPECT_EQ(facts.largest_exponent(), std::ilogb(largest));
    EXPECT_EQ(facts.has_infinity, has_infinity);
    EXPECT_EQ(facts.has_nan, has_nan);
  }
}

TEST(Elements, EveryNumberOf16BitsBecomesTheNearestValue) {
  for (const Element element : kElements) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      EXPECT_EQ(differences(all_numbers(type), element, Mutation::none), 0) << name(element) << " of " << type;
    }
  }
}

TEST(Elements, WrongRoundingsAreRefused) {
  for (const Element element : kElements) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      for (const Mutation mutation : {Mutation::ties_away, Mutation::truncated, Mutation::subnormals_flushed,
                                      Mutation::bias_one_more, Mutation::no_saturation}) {
        EXPECT_GT(differences(all_numbers(type), element, mutation), 0) << name(mutation) << " of " << name(element);
      }
    }
  }
}

TEST(Elements, EveryCodeHasItsValue) {
  for (const Element element : kElements) {
    const Tensor codes = all_codes(element), values = values_of(codes, element), again = codes_of(values, element);
    const std::vector<double> table = all_values(element);
    for (int64_t i = 0; i < codes.numel(); ++i) {
      EXPECT_TRUE(same(values.const_data_ptr<float>()[i], table[static_cast<size_t>(i)])) << name(element) << " " << i;
      if (!std::isfinite(table[static_cast<size_t>(i)])) continue;
      EXPECT_EQ(again.const_data_ptr<uint8_t>()[i], i) << name(element);
    }
  }
}

// LibTorch does not saturate, so its casts are compared up to the largest value. It keeps the sign of NaN.
TEST(Elements, AreLibTorchsFloat8) {
  for (const auto& [element, type] :
       {std::pair{Element::e4m3, at::kFloat8_e4m3fn}, {Element::e5m2, at::kFloat8_e5m2}}) {
    for (const at::ScalarType input : {at::kBFloat16, at::kHalf}) {
      const Tensor all = all_numbers(input), x = all.masked_select(all.abs().le(facts_of(element).largest));
      EXPECT_GT(x.numel(), 20'000);
      EXPECT_TRUE(codes_of(rounded_to_element(x, element), element).equal(x.to(type).view(at::kByte))) << name(element);
    }
    const Tensor codes = all_codes(element), expected = codes.view(type).to(at::kFloat);
    EXPECT_TRUE(values_of(codes, element).allclose(expected, /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true))
        << name(element);
  }
}

}  // namespace
}  // namespace strata::kernels
