// SPDX-License-Identifier: MIT
// Cuts a tensor into blocks of rows, and sums in each of them what the rule of agreement compares.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::kernels {

using at::Tensor;

// A block has at most kRowsOfBlock rows, and fewer if kElementsOfBlock elements are reached, which are enough for a
// root mean square. A row with more elements is several blocks: its large elements would hide the errors of small ones,
// such as the errors of a tile.
inline constexpr int64_t kRowsOfBlock = 64, kElementsOfBlock = 512;

// How a tensor is cut: into groups, rows, and pieces of rows that are wider than a block.
struct Cut {
  int64_t width = 1, piece = 1, pieces = 1;

  // A row of the tensor is as wide as its last dimension if `row_width` is 0 or does not divide that.
  Cut(const Tensor& tensor, int64_t row_width);

  int64_t rows_of_block() const;

  // Turns [rows, columns] into [groups, rows, piece]. The last piece of a row is filled with zeros.
  Tensor operator()(const Tensor& tensor) const;
};

// These are the sums that are computed for each block. `stored` is Variance::element_variance.
enum class Sum : int64_t {
  elements,
  sizes,               // sums of |exact|
  squares,             // sums of exact^2
  fourth_powers,       // sums of exact^4
  roundings,           // sums of rounding^2
  rounding_products,   // sums of rounding * exact
  rounding_variances,  // sums of rounding^2 * exact^2
  stored,              // sums of stored
  stored_products,     // sums of the squares of each row's sum of sqrt(stored) * |exact|
  product_variances,   // sums of Variance::product_variance
  square_variances,    // sums of Variance::square_variance
  largest_exact,       // the largest, not the sum, as in the next two
  largest_rounding,
  largest_stored,
};
// The same of a value's errors.
enum class ErrorSum : int64_t {
  squares,   // sums of error^2
  products,  // sums of error * exact
  largest,   // the largest, not the sum
};

// `rounding` is rounded - exact, [rows, columns]. `stored` has the same sizes. The variances of products and squares
// are [pieces of rows, groups]. These three may be undefined. Returns [Sum, groups, blocks].
Tensor sums_of_formula(const Cut& cut, const Tensor& exact_rows, const Tensor& rounding_rows, const Tensor& stored_rows,
                       const Tensor& product_variances, const Tensor& square_variances);

// `error` is value - exact, [rows, columns]. Returns [ErrorSum, groups, blocks].
Tensor sums_of_errors(const Cut& cut, const Tensor& exact_rows, const Tensor& error_rows);

}  // namespace strata::kernels
