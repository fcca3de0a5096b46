// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace strata::kernels {
namespace {

// A block has at most so many rows, and fewer if they have enough elements for a root mean square. A row with more
// elements is several blocks: its large elements would hide the errors of small ones, such as those of a tile.
constexpr int64_t kRowsOfBlock = 64, kElementsOfBlock = 512;

// Two honest results with as many roundings differ in their root mean square by a few percent.
constexpr double kMoreInABlock = 1.25, kMoreInAll = 1.15;
// The formula may be exact by luck where few elements make up most of a block.
constexpr double kRoundingsOfLuck = 2;
// The largest of many errors varies more than their mean square.
constexpr double kMoreInAnElement = 3;
// The factor between a block and the formula: so many standard deviations, and roundings where the formula is exact.
constexpr double kDeviationsOfAFactor = 6, kRoundingsOfAFactor = 0.25;
// The formula rounds a result a few times, and a result that is a difference by its operands.
constexpr double kRoundingsOfTheFormula = 4;
// Numbers of fp16 below 2^-14 have fewer bits. Their rounding is up to 2^-25, however small they are.
constexpr double kSmallestRoundingOfHalf = 0x1p-25;

// How a tensor is cut: into groups, rows, and pieces of rows that are wider than a block.
struct Cut {
  int64_t width = 1, piece = 1, pieces = 1;

  Cut(const Tensor& tensor, int64_t row_width) {
    if (tensor.dim() == 0) return;
    const int64_t last = tensor.size(-1);
    width = row_width == 0 || last % row_width != 0 ? last : row_width;
    pieces = (width + kElementsOfBlock - 1) / kElementsOfBlock;
    piece = (width + pieces - 1) / pieces;
  }

  // Returns [groups, rows, piece]. The last piece of a row is filled with zeros.
  Tensor operator()(const Tensor& tensor) const {
    if (tensor.dim() == 0) return tensor.reshape({1, 1, 1});
    const int64_t groups = tensor.size(-1) / width;
    Tensor rows = tensor.reshape({-1, groups, width}).transpose(0, 1);
    if (const int64_t missing = pieces * piece - width; missing > 0)
      rows = at::constant_pad_nd(rows, {0, missing}, 0.0);
    return rows.reshape({groups, -1, piece});
  }

  // Returns the number of elements of each row of one group, [1, rows]. Zeros that were filled in do not count.
  Tensor elements(const Tensor& rows) const {
    const Tensor of_row = at::full({pieces}, static_cast<double>(piece), rows.options());
    of_row.narrow(0, pieces - 1, 1).fill_(static_cast<double>(width - (pieces - 1) * piece));
    return of_row.repeat({1, rows.size(1) / pieces});
  }
};

// Numbers of each block, from numbers of each row: [groups, rows] becomes [groups, blocks, rows of a block].
Tensor in_blocks(const Tensor& of_rows, int64_t rows) {
  const int64_t missing = (rows - of_rows.size(1) % rows) % rows;
  const Tensor padded = missing == 0 ? of_rows : at::constant_pad_nd(of_rows, {0, missing}, 0.0);
  return padded.reshape({of_rows.size(0), -1, rows});
}

struct Blocks {
  Tensor mean_square, largest;  // [groups, blocks]
  double of_all = 0;            // mean square of the whole tensor
};

Blocks blocks_of(const Tensor& rows, int64_t rows_of_block, const Tensor& elements, int64_t all) {
  const Tensor sums = in_blocks((rows * rows).sum(2), rows_of_block).sum(2);
  return {sums / elements, in_blocks(rows.abs().amax(2), rows_of_block).amax(2),
          sums.sum().item<double>() / static_cast<double>(all)};
}

// Returns the mean square of the error that one rounding of every element could have at most, as far as few large
// elements make it up: the sum of the fourth powers over the sum of squares.
Tensor luck_of(const Tensor& rows, int64_t rows_of_block, const Tensor& elements) {
  const Tensor squares = rows * rows, sums = in_blocks(squares.sum(2), rows_of_block).sum(2);
  const Tensor fourth = in_blocks((squares * squares).sum(2), rows_of_block).sum(2);
  return at::where(sums == 0, sums, fourth / sums) / elements;
}

// Returns the largest share, and writes where it is if it is more than 1.
double largest_share(const Tensor& found, const Tensor& allowed, const char* of_what, int64_t rows_of_block,
                     const Cut& cut, std::ostream& words) {
  const Tensor shares = at::where(found == 0, at::zeros({}, found.options()), found / allowed).flatten();
  const int64_t at = shares.argmax().item<int64_t>();
  const double share = shares[at].item<double>();
  if (share > 1) {
    const int64_t blocks = found.size(1), first = at % blocks * rows_of_block;
    words << of_what;
    if (cut.pieces == 1) {
      words << " in rows " << first << " to " << first + rows_of_block - 1;
    } else {
      words << " in row " << first / cut.pieces << " from column " << first % cut.pieces * cut.piece;
    }
    if (found.size(0) > 1) words << " of group " << at / blocks;
    words << " is " << found.flatten()[at].item<double>() << ", allowed are " << allowed.flatten()[at].item<double>()
          << "; ";
  }
  return share;
}

}  // namespace

double unit_roundoff(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 0x1p-53;
    case at::kFloat:
      return 0x1p-24;
    case at::kHalf:
      return 0x1p-11;
    case at::kBFloat16:
      return 0x1p-8;
    default:
      TORCH_CHECK(false, "no unit roundoff of ", dtype);
  }
}

double largest(const Tensor& tensor) { return tensor.numel() == 0 ? 0.0 : tensor.abs().max().item<double>(); }

Agreement agreement(const Tensor& value, const Expected& expected, const Bounds& bounds) {
  TORCH_CHECK(value.sizes() == expected.exact.sizes(), "a result of sizes ", value.sizes(), ", expected were ",
              expected.exact.sizes());
  if (value.numel() == 0) return {};
  const Tensor wide = value.to(at::kDouble),
               finite = expected.exact.isfinite().logical_and(expected.rounded.isfinite());
  const int64_t wrong = wide.isfinite().ne(finite).sum().item<int64_t>();
  if (wrong > 0) {
    return {std::numeric_limits<double>::infinity(),
            std::to_string(wrong) + " numbers are finite where the formula's are not, or the other way round"};
  }
  const Cut cut(expected.exact, bounds.row_width);
  const int64_t all = value.numel();
  const auto rows_of = [&](const Tensor& tensor) {
    return cut(at::where(finite, tensor, at::zeros({}, tensor.options())));
  };
  const Tensor exact = rows_of(expected.exact);
  const int64_t rows =
      cut.pieces > 1 ? 1 : std::clamp((kElementsOfBlock + cut.width - 1) / cut.width, int64_t{1}, kRowsOfBlock);
  const Tensor elements = in_blocks(cut.elements(exact), rows).sum(2);
  const Blocks error = blocks_of(rows_of(wide) - exact, rows, elements, all);
  const Blocks rounding = blocks_of(rows_of(expected.rounded) - exact, rows, elements, all);
  const Blocks size = blocks_of(exact, rows, elements, all);

  const double unit = unit_roundoff(bounds.dtype);
  const double floor = bounds.roundings * unit_roundoff(at::kFloat) * std::max(bounds.largest, largest(exact));
  const double most = kRoundingsOfTheFormula * unit, luck = kRoundingsOfLuck * unit;
  const double of_small = bounds.dtype == at::kHalf ? kRoundingsOfTheFormula * kSmallestRoundingOfHalf : 0.0;
  const Tensor of_formula =
      at::minimum(rounding.mean_square, (size.mean_square + size.of_all) * (most * most) + of_small * of_small);
  const Tensor allowed = of_formula + luck_of(exact, rows, elements) * (luck * luck);
  // Products of errors and results find a factor that is a little wrong, such as a norm that was rounded to 16 bits.
  const Tensor rounded_by = rows_of(expected.rounded) - exact, squares = exact * exact;
  const auto sum_of = [&](const Tensor& of_rows) { return in_blocks(of_rows.sum(2), rows).sum(2); };
  const double by_luck = kRoundingsOfAFactor * unit;
  const Tensor variance = sum_of(rounded_by * rounded_by * squares + squares * squares * (by_luck * by_luck));
  const Tensor wrong_factor = sum_of((rows_of(wide) - exact) * exact).abs();
  const Tensor allowed_factor =
      (sum_of(rounded_by * exact).abs() + variance.sqrt() * kDeviationsOfAFactor) * bounds.factor +
      sum_of(exact.abs()) * floor;
  std::ostringstream words;
  const double of_factors =
      largest_share(wrong_factor, allowed_factor, "product of error and result", rows, cut, words);
  const double of_blocks =
      largest_share(error.mean_square.sqrt(), allowed.sqrt() * (kMoreInABlock * bounds.factor) + floor,
                    "root mean square error", rows, cut, words);
  const double of_elements = largest_share(
      error.largest,
      rounding.largest * (kMoreInAnElement * bounds.factor) + size.largest * (unit * bounds.factor) + floor,
      "largest error", rows, cut, words);
  const double found_in_all = std::sqrt(error.of_all);
  const double of_formula_in_all = (of_formula * elements).sum().item<double>() / static_cast<double>(all);
  const double luck_in_all =
      luck_of(exact.reshape({1, 1, -1}), 1, at::full({1, 1}, double(all), exact.options())).item<double>() * luck *
      luck;
  const double allowed_in_all = std::sqrt(of_formula_in_all + luck_in_all) * kMoreInAll * bounds.factor + floor;
  const double of_all = found_in_all == 0 ? 0 : found_in_all / allowed_in_all;
  if (of_all > 1) {
    words << "root mean square error is " << found_in_all << ", allowed are " << allowed_in_all << "; ";
  }
  Agreement result{std::max({of_factors, of_blocks, of_elements, of_all}), words.str()};
  if (result.words.size() > 2) result.words.resize(result.words.size() - 2);
  return result;
}

}  // namespace strata::kernels
