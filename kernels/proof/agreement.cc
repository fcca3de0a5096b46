// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace strata::kernels {
namespace {

// A block has at most kRowsOfBlock rows, and fewer if kElementsOfBlock elements are reached, which are enough for a
// root mean square. A row with more elements is several blocks: its large elements would hide the errors of small ones,
// such as those of a tile.
constexpr int64_t kRowsOfBlock = 64, kElementsOfBlock = 512;

// The allowed error, as a multiple of the error of the formula. If two correct results have the same number of
// roundings, their root mean squares differ by a few percent. The largest of many errors, and factors, differ more.
constexpr double kMoreInABlock = 1.25, kMoreInAll = 1.15, kMoreInAnElement = 3, kMoreInAFactor = 2;
// If few elements make up most of a block, the formula may be exact by chance. So this many roundings are always
// allowed.
constexpr double kRoundingsByChance = 2, kRoundingsOfAFactor = 0.25;
constexpr double kDeviationsOfAFactor = 6;  // standard deviations
constexpr double kLargePart = 0.25;  // of the mean square of the tensor; in smaller blocks a factor may be chance
// The error of the formula counts up to this many roundings of numbers as large as those of the block and of the
// tensor. In a difference that nearly cancels, the roundings of its operands may be larger than all of the result.
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

  int64_t rows_of_block() const {
    return pieces > 1 ? 1 : std::clamp((kElementsOfBlock + width - 1) / width, int64_t{1}, kRowsOfBlock);
  }

  // Returns [groups, rows, piece]. The last piece of a row is filled with zeros.
  Tensor operator()(const Tensor& tensor) const {
    if (tensor.dim() == 0) return tensor.reshape({1, 1, 1});
    const int64_t groups = tensor.size(-1) / width;
    Tensor rows = tensor.reshape({-1, groups, width}).transpose(0, 1);
    const int64_t missing = pieces * piece - width;
    if (missing > 0) rows = at::constant_pad_nd(rows, {0, missing}, 0.0);
    return rows.reshape({groups, -1, piece});
  }
};

// Numbers of each block, from numbers of each row: [groups, rows] becomes [groups, blocks, rows of a block].
Tensor in_blocks(const Tensor& of_rows, int64_t rows) {
  const int64_t missing = (rows - of_rows.size(1) % rows) % rows;
  const Tensor padded = missing == 0 ? of_rows : at::constant_pad_nd(of_rows, {0, missing}, 0.0);
  return padded.reshape({of_rows.size(0), -1, rows});
}

class Comparison {
 public:
  // `error` is value - exact, `rounding` is rounded - exact. Numbers that are not finite are 0 in all three.
  Comparison(const Tensor& exact, const Tensor& error, const Tensor& rounding, const Bounds& bounds)
      : cut_(exact, bounds.row_width),
        count_(static_cast<double>(exact.numel())),
        rows_(cut_.rows_of_block()),
        exact_(cut_(exact)),
        error_(cut_(error)),
        rounding_(cut_(rounding)),
        factor_(bounds.factor),
        unit_(unit_roundoff(bounds.dtype)),
        of_small_(bounds.dtype == at::kHalf ? kSmallestRoundingOfHalf : 0.0),
        floor_(bounds.roundings * unit_roundoff(at::kFloat) * std::max(bounds.largest, largest(exact))),
        squares_(exact_ * exact_),
        sum_of_squares_(sum_of(squares_)),
        elements_(sum_of(cut_(at::ones_like(exact)))) {}

  Agreement agreement() {
    const Tensor of_formula = square_of_formula();
    Agreement result;
    result.share =
        std::max({share_of_factors(), share_of_blocks(of_formula), share_of_elements(), share_of_all(of_formula)});
    result.words = words_.str();
    return result;
  }

 private:
  // [groups, rows, piece] becomes [groups, blocks].
  Tensor sum_of(const Tensor& rows) const { return in_blocks(rows.sum(2), rows_).sum(2); }
  Tensor largest_of(const Tensor& rows) const { return in_blocks(rows.abs().amax(2), rows_).amax(2); }

  // Returns the sum of the squares of the formula's error in each block, at most that of kRoundingsOfTheFormula.
  Tensor square_of_formula() const {
    const double most = kRoundingsOfTheFormula * unit_, of_small = kRoundingsOfTheFormula * of_small_;
    const Tensor size = sum_of_squares_ + elements_ * (sum_of_squares_.sum() / count_);
    return at::minimum(sum_of(rounding_ * rounding_), size * (most * most) + elements_ * (of_small * of_small));
  }

  // Returns the square of the error of kRoundingsByChance roundings. The quotient is the square of one element if all
  // of them are equal, or if one is much larger than the others.
  Tensor square_by_chance(const Tensor& fourth_powers, const Tensor& squares) const {
    const double chance = kRoundingsByChance * unit_;
    return at::where(squares == 0, squares, fourth_powers / squares) * (chance * chance);
  }

  // The product of error and result finds a factor that is a little wrong, such as a norm that was rounded to 16 bits.
  // Where few rounded numbers make up a row, as in the gradient of a product's input, the formula has such factors too.
  double share_of_factors() {
    const double chance = kRoundingsOfAFactor * unit_;
    const Tensor of_formula = sum_of(rounding_ * exact_).abs();
    const Tensor variance = sum_of(rounding_ * rounding_ * squares_ + squares_ * squares_ * (chance * chance));
    const Tensor is_large = sum_of_squares_ / elements_ >= sum_of_squares_.sum() * (kLargePart / count_);
    const Tensor largest_factor = at::where(is_large, of_formula / sum_of_squares_, 0.0).nan_to_num(0.0).max();
    const Tensor allowed = at::maximum(of_formula + variance.sqrt() * kDeviationsOfAFactor,
                                       sum_of_squares_ * largest_factor * kMoreInAFactor);
    return largest_share(sum_of(error_ * exact_).abs(), allowed * factor_ + sum_of(exact_.abs()) * floor_,
                         "product of error and result");
  }

  double share_of_blocks(const Tensor& of_formula) {
    const Tensor found = (sum_of(error_ * error_) / elements_).sqrt();
    const Tensor by_chance = square_by_chance(sum_of(squares_ * squares_), sum_of_squares_);
    const Tensor allowed = ((of_formula + by_chance) / elements_).sqrt() * (kMoreInABlock * factor_);
    return largest_share(found, allowed + floor_, "root mean square error");
  }

  double share_of_elements() {
    const Tensor allowed = largest_of(rounding_) * kMoreInAnElement + largest_of(exact_) * unit_;
    return largest_share(largest_of(error_), allowed * factor_ + floor_, "largest error");
  }

  double share_of_all(const Tensor& of_formula) {
    const Tensor by_chance = square_by_chance((squares_ * squares_).sum(), squares_.sum());
    const double found = std::sqrt((error_ * error_).sum().item<double>() / count_);
    const double allowed =
        std::sqrt((of_formula.sum() + by_chance).item<double>() / count_) * (kMoreInAll * factor_) + floor_;
    if (found > allowed) say() << "root mean square error of all rows is " << found << ", allowed are " << allowed;
    return found == 0 ? 0 : found / allowed;
  }

  // Returns the largest share, and writes where it is if it is more than 1.
  double largest_share(const Tensor& found, const Tensor& allowed, const char* of_what) {
    const Tensor shares = at::where(found == 0, 0.0, found / allowed).flatten();
    const int64_t at = shares.argmax().item<int64_t>();
    const double share = shares[at].item<double>();
    if (share <= 1) return share;
    const int64_t blocks = found.size(1), first = at % blocks * rows_;
    if (cut_.pieces == 1) {
      say() << of_what << " in rows " << first << " to " << std::min(first + rows_, exact_.size(1)) - 1;
    } else {
      say() << of_what << " in row " << first / cut_.pieces << " from column " << first % cut_.pieces * cut_.piece;
    }
    if (found.size(0) > 1) words_ << " of group " << at / blocks;
    words_ << " is " << found.flatten()[at].item<double>() << ", allowed are " << allowed.flatten()[at].item<double>();
    return share;
  }

  std::ostream& say() { return words_ << (words_.tellp() > 0 ? "; " : ""); }

  const Cut cut_;
  const double count_;                     // elements of the tensor
  const int64_t rows_;                     // of a block
  const Tensor exact_, error_, rounding_;  // [groups, rows, piece]
  const double factor_, unit_, of_small_, floor_;
  const Tensor squares_, sum_of_squares_, elements_;
  std::ostringstream words_;
};

// Returns 0 for a finite number, and another number for each of NaN, infinity and -infinity.
Tensor kind_of(const Tensor& tensor) {
  return tensor.isnan().to(at::kChar) + at::isposinf(tensor).to(at::kChar) * 2 + at::isneginf(tensor).to(at::kChar) * 3;
}

// Counts the numbers of another kind than the formula's. A number that overflows in the dtype is finite in fp64. A NaN
// may come of two infinities in the dtype only, and then another order of operations may leave one of them.
int64_t count_wrong_kinds(const Tensor& value, const Expected& expected) {
  const Tensor kind = kind_of(value), exact = kind_of(expected.exact), rounded = kind_of(expected.rounded);
  const Tensor is_defined = exact.eq(rounded).logical_or(exact.eq(0).logical_and(rounded.ne(1)));
  const Tensor is_finite = exact.eq(0).logical_and(rounded.eq(0));
  return at::where(is_defined, kind.ne(rounded), kind.eq(0).ne(is_finite)).sum().item<int64_t>();
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
  if (const int64_t wrong = count_wrong_kinds(wide, expected); wrong > 0) {
    return {std::numeric_limits<double>::infinity(),
            std::to_string(wrong) + " numbers are not what the formula's are: finite, NaN, infinity or -infinity"};
  }
  const auto where_finite = [&](const Tensor& tensor) { return at::where(finite, tensor, 0.0); };
  const Tensor exact = where_finite(expected.exact);
  return Comparison(exact, where_finite(wide) - exact, where_finite(expected.rounded) - exact, bounds).agreement();
}

}  // namespace strata::kernels
