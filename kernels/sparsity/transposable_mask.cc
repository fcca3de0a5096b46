// SPDX-License-Identifier: MIT
#include "kernels/sparsity/transposable_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <array>

#include "kernels/sparsity/transposable_patterns.h"

namespace strata::kernels {
namespace {

using at::Tensor;
using Patterns = TransposablePatterns;

// [90, 4, 4], on the device of `like`.
Tensor kept_of_patterns(const Tensor& like) {
  const Tensor kept = at::empty({Patterns::kCount, 4, 4}, at::kBool);
  for (int i = 0; i < Patterns::kCount * 16; ++i) {
    kept.mutable_data_ptr<bool>()[i] = (kTransposablePatterns.kept[i / 16] >> i % 16 & 1) != 0;
  }
  return kept.to(like.device());
}

}  // namespace

Tensor transposable_mask(const Tensor& weight) {
  const int64_t rows = weight.size(0) / 4, columns = weight.size(1) / 4;
  const Tensor sizes = weight.to(at::kFloat).abs();
  const Tensor magnitudes = at::where(sizes.le(kLargestMagnitude), sizes, kLargestMagnitude);
  const Tensor tiles = magnitudes.contiguous().view({rows, 4, columns, 4});
  std::array<std::array<Tensor, kRowPairs>, 4> sums;
  for (int row = 0; row < 4; ++row) {
    const Tensor four = tiles.select(1, row);
    for (int i = 0; i < kRowPairs; ++i) {
      const auto [first, second] = row_pair(i);
      sums[row][i] = four.select(-1, first) + four.select(-1, second);
    }
  }
  Tensor largest = at::full_like(sums[0][0], -1), chosen = at::zeros_like(largest, at::kLong);
  for (int i = 0; i < Patterns::kCount; ++i) {
    const int* pair = kTransposablePatterns.pair[i];
    const Tensor sum = sums[0][pair[0]] + sums[1][pair[1]] + sums[2][pair[2]] + sums[3][pair[3]];
    const Tensor is_larger = sum.gt(largest);
    largest = at::where(is_larger, sum, largest);
    chosen = chosen.masked_fill(is_larger, i);
  }
  const Tensor kept = kept_of_patterns(weight).index_select(0, chosen.flatten()).view({rows, columns, 4, 4});
  return kept.permute({0, 2, 1, 3}).reshape(weight.sizes());
}

}  // namespace strata::kernels
