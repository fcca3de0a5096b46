// SPDX-License-Identifier: MIT
// Stochastic rounding: the mean of many draws, the neighbors, and the hash that the draws are made of.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/quantize/element_values.h"
#include "kernels/quantize/quantize.h"
#include "kernels/runtime/element_hash.h"
#include "tests/kernels/quantize/standard_formats.h"

namespace strata::kernels {
namespace {

constexpr int64_t kWidth = 128, kRows = 10'000, kKeys = 10;

Tensor key_of(int64_t key) { return at::full({1}, key, at::kLong); }

// lowbias32 with the arithmetic of uint32_t.
uint32_t mix(uint32_t hash) {
  hash = (hash ^ hash >> 16) * 0x7feb352d;
  hash = (hash ^ hash >> 15) * 0x846ca68b;
  return hash ^ hash >> 16;
}

uint32_t hash_of(uint64_t key, uint32_t site, uint64_t row, uint64_t column) {
  uint32_t hash = mix(static_cast<uint32_t>(key >> 32) ^ mix(static_cast<uint32_t>(key) ^ 0x9e3779b9));
  hash = mix(static_cast<uint32_t>(row) ^ mix(site ^ hash));
  hash = mix(static_cast<uint32_t>(row >> 32) ^ hash);
  return mix(hash ^ mix(static_cast<uint32_t>(column) + 0x9e3779b9));
}

TEST(ElementHash, IsItsFormula) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{7}, uint64_t{0x123456789abcdef0}, ~uint64_t{0}}) {
    for (const uint64_t first_row : {uint64_t{0}, uint64_t{0xfffffffe}, uint64_t{0x300000000}}) {
      const Tensor hash = element_hash(key_of(static_cast<int64_t>(key)), 5, static_cast<int64_t>(first_row), 4, 9);
      for (uint64_t i = 0; i < 4 * 9; ++i) {
        const uint64_t row = first_row + i / 9;
        ASSERT_EQ(hash.const_data_ptr<int64_t>()[i], hash_of(key, 5, row, i % 9)) << key << " " << row << " " << i % 9;
      }
    }
  }
}

// Equal rows of numbers that lie between the values of every element, also below the smallest, beside exact values.
Tensor one_row() {
  Tensor row = at::rand({1, kWidth}, at::make_generator<at::CPUGeneratorImpl>(3), at::kFloat).mul_(12).sub_(6);
  float* numbers = row.mutable_data_ptr<float>();
  for (int64_t i = 0; i < kWidth; i += 16) numbers[i] = 6;  // the largest of each block
  for (int64_t i = 1; i < kWidth; i += 8) numbers[i] = std::ldexp(numbers[i], -static_cast<int>(i / 6));
  return row;
}

// The two values around each number, in fp32, and the standard error of the mean of all draws, in fp64. Where a number
// is a value, both are this value.
struct Neighbors {
  Tensor below, above, error;
};

Neighbors neighbors_of(const Tensor& row, QuantizedFormat format) {
  std::vector<double> values = all_values(format.element);
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::ranges::sort(values);
  // Rows are equal, so each of them has the scales of the first.
  const Quantized quantized = quantize(row, format, Rounding::nearest_even, {});
  const Tensor ones = codes_of(at::ones_like(row), format.element);
  const Tensor scales = dequantize({ones, quantized.scales, quantized.tensor_scale}, format, at::kFloat);
  Neighbors found = {at::zeros({kWidth}, at::kFloat), at::zeros({kWidth}, at::kFloat),
                     at::zeros({kWidth}, at::kDouble)};
  for (int64_t i = 0; i < kWidth; ++i) {
    const float scale = scales.const_data_ptr<float>()[i];
    const double quotient = row.const_data_ptr<float>()[i] / scale;
    const auto above = std::ranges::lower_bound(values, quotient);
    const auto below = *above == quotient ? above : above - 1;
    const double share = above == below ? 0 : (quotient - *below) / (*above - *below);
    found.below.mutable_data_ptr<float>()[i] = static_cast<float>(*below) * scale;
    found.above.mutable_data_ptr<float>()[i] = static_cast<float>(*above) * scale;
    found.error.mutable_data_ptr<double>()[i] =
        (*above - *below) * scale * std::sqrt(share * (1 - share) / (kRows * kKeys));
  }
  return found;
}

struct Draws {
  Tensor mean;                    // mean of each column, fp64
  bool neighbors = true;          // each draw is a neighbor
  int64_t columns_with_both = 0;  // columns with both values among the draws of one key
};

Draws draws_of(const Tensor& row, QuantizedFormat format, Rounding rounding, const Neighbors& neighbors) {
  const Tensor x = row.expand({kRows, kWidth});
  Draws draws = {at::zeros({kWidth}, at::kDouble)};
  for (int64_t key = 0; key < kKeys; ++key) {
    const Tensor drawn = rounded_to(x, format, rounding, rounding == Rounding::stochastic ? key_of(key) : Tensor());
    draws.mean += drawn.mean(0, /*keepdim=*/false, at::kDouble) / kKeys;
    const Tensor below = drawn.eq(neighbors.below), above = drawn.eq(neighbors.above);
    draws.neighbors = draws.neighbors && below.logical_or(above).all().item<bool>();
    draws.columns_with_both =
        below.any(0).logical_and(above.any(0)).logical_and(neighbors.error.gt(0)).sum().item<int64_t>();
  }
  return draws;
}

const QuantizedFormat kFormats[] = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::row},
                                    {Element::e4m3, Scaling::block},  {Element::e3m2, Scaling::mx},
                                    {Element::e2m3, Scaling::mx},     {Element::e2m1, Scaling::mx},
                                    {Element::e4m3, Scaling::mx},     {Element::e2m1, Scaling::nv}};

// The number of columns whose mean is more than 5 standard errors from the number. The quotient x / scale is rounded to
// fp32, and so is the product of value and scale: together up to 2^-22 of the number.
int64_t biased_columns(const Tensor& mean, const Tensor& row, const Neighbors& neighbors) {
  const Tensor numbers = row[0].to(at::kDouble), allowed = neighbors.error * 5 + numbers.abs() * 0x1p-22;
  return (mean - numbers).abs().gt(allowed).sum().item<int64_t>();
}

TEST(StochasticRounding, HasTheNumberAsItsMeanAndItsNeighborsAsValues) {
  const Tensor row = one_row();
  for (const QuantizedFormat format : kFormats) {
    SCOPED_TRACE(std::string(name(format)) + " " + std::string(name(format.element)));
    const Neighbors neighbors = neighbors_of(row, format);
    const Draws draws = draws_of(row, format, Rounding::stochastic, neighbors);
    EXPECT_EQ(biased_columns(draws.mean, row, neighbors), 0);
    EXPECT_TRUE(draws.neighbors);
    EXPECT_GT(draws.columns_with_both, kWidth / 2);
    // The test can fail: rounding to nearest is biased.
    const Draws nearest = draws_of(row, format, Rounding::nearest_even, neighbors);
    EXPECT_GT(biased_columns(nearest.mean, row, neighbors), kWidth / 2);
  }
}

// With the largest number 6, all blocks of mxfp4 have the scale 1.
TEST(StochasticRounding, ComparesTheHashOfTheHeader) {
  constexpr QuantizedFormat kFormat = {Element::e2m1, Scaling::mx};
  const Tensor row = one_row(), drawn = rounded_to(row.expand({3, kWidth}), kFormat, Rounding::stochastic, key_of(9));
  const Neighbors neighbors = neighbors_of(row, kFormat);
  for (int64_t i = 0; i < drawn.numel(); ++i) {
    const int64_t column = i % kWidth;
    const double number = row.const_data_ptr<float>()[column];
    double nearer = neighbors.below.const_data_ptr<float>()[column];
    double further = neighbors.above.const_data_ptr<float>()[column];
    if (number < 0) std::swap(nearer, further);
    const double share = nearer == further ? 0 : (number - nearer) / (further - nearer);
    const bool away =
        hash_of(9, 0x7175616e, static_cast<uint64_t>(i / kWidth), static_cast<uint64_t>(column)) < share * 0x1p32;
    EXPECT_EQ(drawn.const_data_ptr<float>()[i], away ? further : nearer)
        << "row " << i / kWidth << ", column " << column;
  }
}

TEST(StochasticRounding, NeverChangesExactValues) {
  for (const auto& [_, format] : kNamedFormats) {
    const Tensor exact =
        rounded_to(one_row(), {format.element, Scaling::mx}, Rounding::nearest_even, {}).expand({500, kWidth});
    for (int64_t key = 0; key < 3; ++key) {
      EXPECT_TRUE(rounded_to(exact, {format.element, Scaling::mx}, Rounding::stochastic, key_of(key)).equal(exact));
    }
  }
}

TEST(StochasticRounding, DependsOnTheKeyAndThePlaceAlone) {
  const Tensor x = one_row().expand({20, kWidth}).contiguous();
  for (const auto& [_, format] : kNamedFormats) {
    const Tensor first = rounded_to(x, format, Rounding::stochastic, key_of(1));
    EXPECT_TRUE(first.equal(rounded_to(x, format, Rounding::stochastic, key_of(1))));
    EXPECT_TRUE(first.equal(rounded_to(x.t().contiguous().t(), format, Rounding::stochastic, key_of(1))));
    EXPECT_FALSE(first.equal(rounded_to(x, format, Rounding::stochastic, key_of(2))));
    EXPECT_FALSE(first[0].equal(first[1]));
    const Quantized quantized = quantize(x, format, Rounding::stochastic, key_of(1));
    EXPECT_TRUE(first.equal(dequantize(quantized, format, at::kFloat)));
  }
}

TEST(StochasticRounding, SaturatesAndKeepsZeros) {
  const Tensor draws = at::zeros({1}, at::kLong);  // the smallest hash always goes away from 0
  for (const Element element : {Element::e4m3, Element::e5m2, Element::e3m2, Element::e2m3, Element::e2m1}) {
    const float largest = facts_of(element).largest;
    for (const float sign : {1.0f, -1.0f}) {
      const auto rounded = [&](float number) {
        return rounded_to_element(at::full({1}, sign * number, at::kFloat), element, draws).item<float>();
      };
      EXPECT_EQ(rounded(largest * 1.03f), sign * largest);
      EXPECT_EQ(rounded(INFINITY), sign * largest);
      EXPECT_EQ(rounded(0), 0);
      EXPECT_EQ(std::signbit(rounded(0)), sign < 0);
      EXPECT_GT(std::abs(rounded(0x1p-40f)), 0);
      EXPECT_TRUE(std::isnan(rounded(NAN)));
    }
  }
}

}  // namespace
}  // namespace strata::kernels
