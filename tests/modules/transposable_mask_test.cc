// SPDX-License-Identifier: MIT
// Transposable masks against all ways to keep eight of 4 x 4 elements, and products with them against fp64.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/linear/sparse_linear.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune.h"
#include "tests/modules/linear_case.h"

namespace strata::modules {
namespace {

using kernels::kept_of_four;
using kernels::Level;
using kernels::pruned;
using kernels::PruneMask;
using kernels::sparse_linear;

constexpr PruneMask kMask = PruneMask::transposable;
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// [rows, width] -> [tiles, 16]
Tensor tiles_of(const Tensor& weight) {
  const int64_t rows = weight.size(0), width = weight.size(1);
  return weight.reshape({rows / 4, 4, width / 4, 4}).permute({0, 2, 1, 3}).reshape({-1, 16}).contiguous();
}

// All sets of eight elements with two in each row and in each column: bit 4 * row + column.
std::vector<unsigned> all_patterns() {
  std::vector<unsigned> patterns;
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    bool has_two = true;
    for (int i = 0; i < 4; ++i) {
      has_two = has_two && std::popcount(bits >> (4 * i) & 0xfu) == 2 && std::popcount(bits >> i & 0x1111u) == 2;
    }
    if (has_two) patterns.push_back(bits);
  }
  return patterns;
}

double kept_sum(const double* tile, unsigned pattern) {
  double sum = 0;
  for (int i = 0; i < 16; ++i) sum += (pattern >> i & 1) != 0 ? std::abs(tile[i]) : 0;
  return sum;
}

unsigned pattern_of(const bool* kept) {
  unsigned pattern = 0;
  for (int i = 0; i < 16; ++i) pattern |= unsigned{kept[i]} << i;
  return pattern;
}

TEST(TransposableMask, KeepsTheLargestSumOfEachTile) {
  const std::vector<unsigned> patterns = all_patterns();
  ASSERT_EQ(patterns.size(), 90);
  at::manual_seed(6);
  for (const at::ScalarType type : kTypes) {
    for (const Tensor& weight : {at::randn({24, 36}).to(type), (at::randn({16, 64}) * 2).round().to(type),
                                 at::randn({36, 24}).to(type).t(), at::randn({40, 80}).to(type).narrow(1, 3, 16)}) {
      const Tensor values = tiles_of(weight.to(at::kDouble)), kept = tiles_of(kept_of_four(weight, kMask));
      for (int64_t tile = 0; tile < values.size(0); ++tile) {
        const double* numbers = values.const_data_ptr<double>() + 16 * tile;
        const unsigned chosen = pattern_of(kept.const_data_ptr<bool>() + 16 * tile);
        ASSERT_NE(std::find(patterns.begin(), patterns.end(), chosen), patterns.end()) << chosen;
        double largest = 0;
        for (const unsigned pattern : patterns) largest = std::max(largest, kept_sum(numbers, pattern));
        EXPECT_GE(kept_sum(numbers, chosen), largest * (1 - 1e-6)) << type << " tile " << tile;
      }
      EXPECT_TRUE(at::equal(pruned(weight, kMask), weight.masked_fill(kept_of_four(weight, kMask).logical_not(), 0)));
    }
  }
}

TEST(TransposableMask, TheFirstOfEqualPatternsIsKept) {
  const Tensor first = at::tensor({1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1}).to(at::kBool).view({4, 4});
  for (const at::ScalarType type : kTypes) {
    EXPECT_TRUE(at::equal(kept_of_four(at::ones({4, 4}, type), kMask), first));
    EXPECT_TRUE(at::equal(kept_of_four(at::full({4, 4}, std::numeric_limits<float>::infinity(), type), kMask), first));
    EXPECT_TRUE(at::equal(kept_of_four(at::full({4, 4}, std::nan(""), type), kMask), first));
  }
}

TEST(TransposableMask, ALostNumberIsKept) {
  at::manual_seed(7);
  for (const double lost : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    for (int64_t place = 0; place < 16; ++place) {
      const Tensor weight = at::randn({4, 4}) * 1e30;
      weight.flatten()[place] = lost;
      EXPECT_TRUE(kept_of_four(weight, kMask).flatten()[place].item<bool>()) << lost << " " << place;
    }
  }
}

TEST(TransposableMask, RefusesOtherSizes) {
  EXPECT_THROW(pruned(at::zeros({6, 8}), kMask), c10::ValueError);
  EXPECT_THROW(pruned(at::zeros({8, 6}), kMask), c10::ValueError);
  EXPECT_THROW(pruned(at::zeros({2, 4, 4}), kMask), c10::ValueError);
  EXPECT_THROW(pruned(at::zeros({4, 4}, at::kDouble), kMask), c10::ValueError);
  EXPECT_EQ(pruned(at::zeros({0, 8}), kMask).sizes(), at::IntArrayRef({0, 8}));
}

TEST(TransposableMask, ItsProductsAreThoseOfThePrunedWeight) {
  constexpr int64_t kInputs = 36, kOutputs = 20;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const LinearCase given(type, {3, 13}, kInputs, kOutputs, [](at::IntArrayRef sizes) { return at::randn(sizes); });
    const auto& [x, weight, bias, grad_y] = given;
    const Tensor y = sparse_linear(x, weight, bias, Level::aten, kMask);
    y.backward(grad_y);
    const auto rows = [](const Tensor& tensor) {
      return tensor.detach().reshape({-1, tensor.size(-1)}).to(at::kDouble);
    };
    const Tensor kept = rows(weight) * kept_of_four(weight.detach(), kMask);
    const double most = type == at::kFloat ? 1e-5 : 0.01;
    EXPECT_LT(relative_difference(rows(y), at::mm(rows(x), kept.t()) + rows(bias)), most);
    EXPECT_LT(relative_difference(rows(x.grad()), at::mm(rows(grad_y), kept)), most);
    EXPECT_LT(relative_difference(rows(weight.grad()), at::mm(rows(grad_y).t(), rows(x))), most);
    const Tensor by_rows = rows(weight) * kept_of_four(weight.detach());
    EXPECT_GT(relative_difference(at::mm(rows(grad_y), by_rows), at::mm(rows(grad_y), kept)), 0.1);
  }
}

}  // namespace
}  // namespace strata::modules
