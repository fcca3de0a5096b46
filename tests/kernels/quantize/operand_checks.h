// SPDX-License-Identifier: MIT
// Matrices for fp8_operand() on a GPU, and checks of its codes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

inline constexpr Element kElements[] = {Element::e4m3, Element::e5m2};
inline constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

inline at::TensorOptions x_options(at::ScalarType type) { return at::TensorOptions(at::kCUDA).dtype(type); }

inline at::Tensor random_matrix(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, x_options(at::kFloat)).to(type);
}

// All numbers of a 16-bit type, [4096, 16], on the CPU.
inline at::Tensor all_numbers(at::ScalarType type) {
  return at::arange(1 << 16, at::kInt).to(at::kShort).view(type).view({4096, 16});
}

// The matrix with zeros in columns up to a multiple of `unit`.
inline at::Tensor filled(const at::Tensor& matrix, int64_t unit = 16) {
  const int64_t width = matrix.size(1);
  const at::Tensor result = at::zeros({matrix.size(0), (width + unit - 1) / unit * unit}, matrix.options());
  result.narrow(1, 0, width).copy_(matrix);
  return result;
}

// Scales [rows, blocks] in the tiles of kernels/cuda/scale_tiles.h, by views of LibTorch: a row is 128 R + 32 q + r,
// and a block 4 C + b.
inline at::Tensor in_scale_tiles(const at::Tensor& scales) {
  const at::Tensor whole = filled(filled(scales, 4).t(), 128).t().contiguous();
  return whole.view({whole.size(0) / 128, 4, 32, whole.size(1) / 4, 4}).permute({0, 3, 2, 1, 4}).reshape({-1});
}

// Two codes of 4 bits in each byte, the first in its low bits.
inline at::Tensor packed(const at::Tensor& codes) {
  return codes.slice(1, 0, {}, 2).bitwise_or(codes.slice(1, 1, {}, 2).bitwise_left_shift(4));
}

inline void expect_codes(const at::Tensor& found, const at::Tensor& wanted, Element element) {
  ASSERT_EQ(found.scalar_type(), element == Element::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const at::Tensor different = found.view(at::kByte).to(wanted.device()).ne(wanted);
  EXPECT_EQ(different.sum().item<int64_t>(), 0)
      << "of " << wanted.numel() << " codes, the first at " << different.to(at::kInt).argmax().item<int64_t>();
}

// Compares fp32 [1] with a tensor of one number. NaN equals NaN.
inline void expect_number(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.sizes(), at::IntArrayRef({1}));
  const float number = found.item<float>(), expected = wanted.item<float>();
  EXPECT_TRUE(number == expected || (std::isnan(number) && std::isnan(expected)))
      << number << " instead of " << expected;
}

// Calls `check` for matrices [rows, 272] of zeros except for one number, at every `step`-th place in turn, with that
// place and the magnitude of the number. It decides about scales: one that a thread does not see would be missed.
inline void with_one_number_anywhere(
    int64_t rows, int64_t step, const std::function<void(const at::Tensor& x, int64_t place, float magnitude)>& check) {
  for (const at::ScalarType type : kTypes) {
    const at::Tensor x = at::zeros({rows, 272}, x_options(type));
    for (int64_t place = 0; place < x.numel() && !testing::Test::HasFailure(); place += step) {
      SCOPED_TRACE("element " + std::to_string(place));
      const float number = place % 2 == 0 ? 448 : -896;
      x.view(-1).narrow(0, place, 1).fill_(number);
      check(x, place, std::abs(number));
      x.zero_();
    }
  }
}

}  // namespace strata::kernels
