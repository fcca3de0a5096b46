// SPDX-License-Identifier: MIT
#include "tests/kernels/quantize/hard_rows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/quantize/standard_formats.h"

namespace strata::kernels {
namespace {

constexpr int64_t kWidth = kHardWidth;

using Row = std::vector<float>;

// Random numbers below `largest` in their absolute value, and one that is +-largest, in each 16 numbers. Half of the
// numbers are up to 2^20 times smaller.
Row row_below(float largest, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Row row;
  for (int64_t i = 0; i < kWidth; ++i) {
    const int smaller = i % 2 == 0 ? 0 : static_cast<int>(random() % 21);
    row.push_back(i % 16 == 5 ? (i % 32 == 5 ? largest : -largest) : std::ldexp(uniform(random) * largest, -smaller));
  }
  return row;
}

// Numbers halfway between two values, and the largest value of each 16, times a factor: their scale is the factor.
Row halfway(Element element, float factor) {
  const std::vector<double> values = all_values(element);
  const auto largest = std::ranges::find(values, facts_of(element).largest) - values.begin();
  Row row;
  for (int64_t i = 0; i < kWidth; ++i) {
    const auto below = static_cast<size_t>(i % largest);
    const double value = i % 16 == 0 ? values[static_cast<size_t>(largest)] : (values[below] + values[below + 1]) / 2;
    row.push_back(static_cast<float>(value) * factor);
  }
  return row;
}

// Blocks of nv whose scales are halfway between two values of e4m3. The first has the largest number of the row.
Row scales_halfway(float largest) {
  const Row scales = halfway(Element::e4m3, largest / 448);
  Row row;
  for (int64_t i = 0; i < kWidth; ++i) {
    const float block_largest = i < 16 ? largest : scales[static_cast<size_t>(i / 16 * 8 - 1)];
    row.push_back(i % 16 == 0 ? block_largest : block_largest * 0.3f);
  }
  return row;
}

Tensor matrix(const std::vector<Row>& rows) {
  const Tensor x = at::empty({static_cast<int64_t>(rows.size()), kWidth}, at::kFloat);
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(x.mutable_data_ptr<float>() + i * kWidth, rows[i].data(), kWidth * sizeof(float));
  return x;
}

}  // namespace

Tensor finite_rows() {
  std::mt19937 random(7);
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::vector<Row> rows;
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    for (const float largest : {std::nextafter(power, 0.0f), power, std::nextafter(power, kLargest)}) {
      rows.push_back(row_below(largest, random));
    }
  }
  for (const float number : {0.0f, -0.0f, 0x1p-149f, -0x1.8p-130f, 1.0f, kLargest, -0x1.cp127f, -0x1.dp127f})
    rows.emplace_back(kWidth, number);
  for (const Element element : {Element::e4m3, Element::e5m2, Element::e3m2, Element::e2m3, Element::e2m1}) {
    for (const float factor : {1.0f, 1.1f, 1.3f, 1.7f, 1.9f}) rows.push_back(halfway(element, factor));
  }
  for (const float largest : {1.1f, 1.3f, 1.5f, 1.7f, 1.9f, 6.0f, 7.1f, 7.9f}) rows.push_back(scales_halfway(largest));
  rows.emplace_back();  // numbers halfway between values of e2m1 where the scales of nv are 448 and 1
  for (int64_t i = 0; i < kWidth; ++i)
    rows.back().push_back(448 * (i % 16 == 0 ? 6 : static_cast<float>(i % 16) * 0.25f));
  rows.emplace_back();  // numbers that round up to the next power of two, in 16 bits too
  for (int64_t i = 0; i < kWidth; ++i) rows.back().push_back(static_cast<float>(i % 2 == 0 ? 1.984375 : -0.9921875));
  rows.emplace_back();  // blocks of very different sizes: 2^-120 to 2^120
  for (int64_t i = 0; i < kWidth; ++i)
    rows.back().push_back(std::ldexp(1.3f + static_cast<float>(i % 7), static_cast<int>(i / 16 * 16 - 120)));
  return matrix(rows);
}

Tensor rows_with_lost_numbers() {
  std::mt19937 random(8);
  std::vector<Row> rows;
  for (const float lost : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    rows.push_back(row_below(3, random));
    rows.back()[70] = lost;
  }
  return matrix(rows);
}

}  // namespace strata::kernels
