// SPDX-License-Identifier: MIT
// Random inputs, copies of inputs and sizes that the proofs of several ops share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <cstdint>
#include <vector>

namespace strata::kernels {

using Leaves = std::vector<at::Tensor>;
using Sizes = std::vector<int64_t>;

inline constexpr double kNormEpsilon = 1e-5;

// Returns random numbers, by default fp64 on the CPU, as cases have them.
inline at::Tensor random(at::IntArrayRef sizes, const at::TensorOptions& options = at::kDouble) {
  return at::randn(sizes, options);
}
// Returns numbers around 1, as weights of norms are.
inline at::Tensor random_weight(int64_t width, const at::TensorOptions& options = at::kDouble) {
  return random({width}, options).mul_(0.2).add_(1.0);
}
// Returns angles of rotary positions, fp32 [positions, head width / 2].
inline at::Tensor random_angles(int64_t positions, int64_t head_width, const at::TensorOptions& options = at::kCPU) {
  return at::rand({positions, head_width / 2}, options.dtype(at::kFloat)).mul_(6.28);
}
inline at::Tensor random_indices(int64_t count, int64_t end, const at::TensorOptions& options) {
  return at::randint(0, end, {count}, options.dtype(at::kLong));
}
inline at::Tensor number(double value, const at::TensorOptions& options) {
  return at::full({}, value, options.dtype(at::kFloat));
}

// Returns a copy of what a case holds, on the CPU too, so that a call takes the same memory on every device.
inline at::Tensor copied_to(c10::Device device, const at::Tensor& tensor) {
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

// Small, odd, one row, no row, narrow, and wide. Width 1 is left out, because gradients of norms are then only
// rounding.
inline std::vector<Sizes> row_shapes() { return {{2, 3, 8}, {5, 33}, {1, 128}, {0, 16}, {7, 5}, {2, 1000}}; }

// Rows whose mean is far from 0: a variance that is computed as mean(x^2) - mean(x)^2 loses its digits.
inline constexpr double kOffset = 100.0;
inline at::Tensor offset_rows(at::IntArrayRef sizes) { return random(sizes).add_(kOffset); }
// Rows with one column that is 300 times as large as the others, as hidden states of language models have.
inline at::Tensor outlier_rows(at::IntArrayRef sizes) {
  const at::Tensor rows = random(sizes);
  rows.select(-1, sizes.back() / 3).mul_(300.0);
  return rows;
}
// Rows of zeros, as padding has them. Without its epsilon a norm makes NaN of them.
inline at::Tensor zero_rows(at::IntArrayRef sizes) { return at::zeros(sizes, at::kDouble); }
// Shapes for such rows: part of a warp, and a block.
inline std::vector<Sizes> unusual_row_shapes() { return {{5, 33}, {2, 1000}}; }

// Batch, positions, heads, heads of keys and values, and width of a head: with and without groups of heads, one
// position, no batch, and numbers that are no powers of two.
inline std::vector<Sizes> head_sizes() {
  return {{2, 5, 4, 4, 8},   {1, 70, 6, 2, 16}, {2, 1, 4, 1, 2},    {0, 4, 2, 2, 4},
          {1, 33, 3, 3, 10}, {2, 40, 4, 2, 64}, {1, 130, 2, 1, 128}};
}

// Returns the number of rows, which are as long as the last dimension.
inline int64_t rows_of(at::IntArrayRef sizes) { return c10::multiply_integers(sizes.slice(0, sizes.size() - 1)); }

}  // namespace strata::kernels
