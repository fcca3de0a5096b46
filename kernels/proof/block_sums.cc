// SPDX-License-Identifier: MIT
#include "kernels/proof/block_sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace strata::kernels {
namespace {

// Numbers of each block, from numbers of each row: [groups, rows] becomes [groups, blocks, rows of a block].
Tensor in_blocks(const Tensor& row_numbers, int64_t rows) {
  const int64_t missing = (rows - row_numbers.size(1) % rows) % rows;
  const Tensor padded = missing == 0 ? row_numbers : at::constant_pad_nd(row_numbers, {0, missing}, 0.0);
  return padded.reshape({row_numbers.size(0), -1, rows});
}

// Sums of blocks, [groups, blocks].
struct Blocks {
  const Cut& cut;
  const int64_t rows = cut.rows_of_block();

  Tensor sum_of_rows(const Tensor& row_numbers) const { return in_blocks(row_numbers, rows).sum(2); }
  Tensor sum_of(const Tensor& tensor) const { return sum_of_rows(tensor.sum(2)); }
  Tensor largest_of(const Tensor& tensor) const { return in_blocks(tensor.abs().amax(2), rows).amax(2); }
};

}  // namespace

Cut::Cut(const Tensor& tensor, int64_t row_width) {
  if (tensor.dim() == 0 || tensor.numel() == 0) return;
  const int64_t last = tensor.size(-1);
  width = row_width == 0 || last % row_width != 0 ? last : row_width;
  pieces = (width + kElementsOfBlock - 1) / kElementsOfBlock;
  piece = (width + pieces - 1) / pieces;
}

int64_t Cut::rows_of_block() const {
  return pieces > 1 ? 1 : std::clamp((kElementsOfBlock + width - 1) / width, int64_t{1}, kRowsOfBlock);
}

Tensor Cut::operator()(const Tensor& tensor) const {
  const int64_t groups = tensor.size(1) / width, missing = pieces * piece - width;
  Tensor rows = tensor.reshape({-1, groups, width}).transpose(0, 1);
  if (missing > 0) rows = at::constant_pad_nd(rows, {0, missing}, 0.0);
  return rows.reshape({groups, -1, piece});
}

Tensor sums_of_formula(const Cut& cut, const Tensor& exact_rows, const Tensor& rounding_rows, const Tensor& stored_rows,
                       const Tensor& product_variances, const Tensor& square_variances) {
  const Blocks of{cut};
  const Tensor exact = cut(exact_rows), rounding = cut(rounding_rows);
  const Tensor squares = exact.square(), square_roundings = rounding.square(), sizes = of.sum_of(exact.abs());
  const Tensor none = at::zeros_like(sizes);
  Tensor stored = none, stored_products = none, largest_stored = none;
  if (stored_rows.defined()) {
    const Tensor variances = cut(stored_rows);
    stored = of.sum_of(variances);
    stored_products = of.sum_of_rows((variances.sqrt() * exact.abs()).sum(2).square());
    largest_stored = of.largest_of(variances);
  }
  const auto row_numbers = [&](const Tensor& variances) {
    return variances.defined() ? of.sum_of_rows(variances.t()) : none;
  };
  return at::stack({of.sum_of(cut(at::ones({}, exact.options()).expand(exact_rows.sizes()))), sizes, of.sum_of(squares),
                    of.sum_of(squares.square()), of.sum_of(square_roundings), of.sum_of(rounding * exact),
                    of.sum_of(square_roundings.mul_(squares)), stored, stored_products, row_numbers(product_variances),
                    row_numbers(square_variances), of.largest_of(exact), of.largest_of(rounding), largest_stored});
}

Tensor sums_of_errors(const Cut& cut, const Tensor& exact_rows, const Tensor& error_rows) {
  const Blocks of{cut};
  const Tensor exact = cut(exact_rows), error = cut(error_rows);
  return at::stack({of.sum_of(error.square()), of.sum_of(error * exact), of.largest_of(error)});
}

}  // namespace strata::kernels
