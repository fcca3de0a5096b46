// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

namespace strata::kernels {
namespace {

// A block has at most kRowsOfBlock rows, and fewer if kElementsOfBlock elements are reached, which are enough for a
// root mean square. A row with more elements is several blocks: its large elements would hide the errors of small ones,
// such as those of a tile.
constexpr int64_t kRowsOfBlock = 64, kElementsOfBlock = 512;
// A tensor is read in slices of so many elements, each of which takes about ten times their memory in fp64.
constexpr int64_t kElementsOfSlice = int64_t{1} << 25;

// The allowed error, as a multiple of the error of the formula. If two correct results have the same number of
// roundings, their root mean squares differ by a few percent. The largest of many errors, and factors, differ more.
constexpr double kMoreInABlock = 1.25, kMoreInAll = 1.15, kMoreInAnElement = 3, kMoreInAFactor = 2;
// If few elements make up most of a block, the formula may be exact by chance. So this many roundings are always
// allowed.
constexpr double kRoundingsByChance = 2, kRoundingsOfAFactor = 0.25;
constexpr double kDeviationsOfAFactor = 6;  // standard deviations
// The same for errors of numbers that are stored before the result. A single one, such as a row's sum, may be all of
// the error of a block, so the largest of 10^8 errors is allowed. In a root mean square kMoreInABlock counts too.
constexpr double kDeviationsInABlock = 3, kDeviationsInAnElement = 5;
// The same for Variance::of_products, which is no upper bound but the variance itself. If that is all of the error, one
// of 150,000 blocks has more.
constexpr double kDeviationsOfAProduct = 4.5;
constexpr double kLargePart = 0.25;  // of the mean square of the tensor; in smaller blocks a factor may be chance
// The error of the formula counts up to this many roundings of numbers as large as those of the block and of the
// tensor. In a difference that nearly cancels, the roundings of its operands may be larger than all of the result.
constexpr double kRoundingsOfTheFormula = 4;
// Numbers of fp16 below 2^-14 have fewer bits. Their rounding is up to 2^-25, however small they are.
constexpr double kSmallestRoundingOfHalf = 0x1p-25;

// The parts into which a tensor is cut: groups, rows, and pieces of rows that are wider than a block.
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

  // Turns [rows, columns] into [groups, rows, piece]. The last piece of a row is filled with zeros.
  Tensor operator()(const Tensor& tensor) const {
    const int64_t groups = tensor.size(1) / width, missing = pieces * piece - width;
    Tensor rows = tensor.reshape({-1, groups, width}).transpose(0, 1);
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

// These are the sums that are computed for each block. `stored` is Variance::of_elements.
enum class Sum : int64_t {
  elements,
  sizes,               // of |exact|
  squares,             // of exact^2
  fourth_powers,       // of exact^4
  errors,              // of error^2
  error_products,      // of error * exact
  roundings,           // of rounding^2
  rounding_products,   // of rounding * exact
  rounding_variances,  // of rounding^2 * exact^2
  stored,              // of stored
  stored_products,     // of the squares of each row's sum of sqrt(stored) * |exact|
  product_variances,   // of Variance::of_products
  largest_exact,       // the largest, not the sum, as in the next three
  largest_error,
  largest_rounding,
  largest_stored,
};

// `error` is value - exact, `rounding` is rounded - exact, all [rows, columns], and `product_variances` is [pieces of
// rows, groups]. Returns [Sum, groups, blocks].
Tensor sums_of_blocks(const Cut& cut, const Tensor& exact_rows, const Tensor& error_rows, const Tensor& rounding_rows,
                      const Tensor& stored_rows, const Tensor& product_variances) {
  const Tensor exact = cut(exact_rows), error = cut(error_rows), rounding = cut(rounding_rows),
               stored = cut(stored_rows);
  const int64_t rows = cut.rows_of_block();
  const auto sum_of_rows = [&](const Tensor& of_rows) { return in_blocks(of_rows, rows).sum(2); };
  const auto sum_of = [&](const Tensor& tensor) { return sum_of_rows(tensor.sum(2)); };
  const auto largest_of = [&](const Tensor& tensor) { return in_blocks(tensor.abs().amax(2), rows).amax(2); };
  const Tensor squares = exact.square(), square_roundings = rounding.square();
  return at::stack({sum_of(cut(at::ones({}, exact.options()).expand(exact_rows.sizes()))), sum_of(exact.abs()),
                    sum_of(squares), sum_of(squares.square()), sum_of(error.square()), sum_of(error * exact),
                    sum_of(square_roundings), sum_of(rounding * exact), sum_of(square_roundings.mul_(squares)),
                    sum_of(stored), sum_of_rows((stored.sqrt() * exact.abs()).sum(2).square()),
                    sum_of_rows(product_variances.t()), largest_of(exact), largest_of(error), largest_of(rounding),
                    largest_of(stored)});
}

class Comparison {
 public:
  // `sums` are those of all blocks of a tensor with so many elements.
  Comparison(const Cut& cut, const Tensor& sums, int64_t count, const Bounds& bounds)
      : cut_(cut),
        sums_(sums),
        count_(static_cast<double>(count)),
        rows_(cut_.rows_of_block()),
        all_rows_(count / (cut_.width * sums.size(1))),
        factor_(bounds.factor),
        unit_(unit_roundoff(bounds.dtype)),
        of_small_(bounds.dtype == at::kHalf ? kSmallestRoundingOfHalf : 0.0),
        floor_(bounds.roundings * unit_roundoff(at::kFloat) *
               std::max(bounds.largest, largest(all(Sum::largest_exact)))) {}

  Agreement agreement() {
    const Tensor of_formula = square_of_formula();
    Agreement result;
    result.share =
        std::max({share_of_factors(), share_of_blocks(of_formula), share_of_elements(), share_of_all(of_formula)});
    result.words = words_.str();
    return result;
  }

 private:
  // Returns [groups, blocks].
  Tensor all(Sum sum) const { return sums_.select(0, static_cast<int64_t>(sum)); }

  // Returns the sum of the squares of the formula's error in each block, at most that of kRoundingsOfTheFormula.
  Tensor square_of_formula() const {
    const double most = kRoundingsOfTheFormula * unit_, of_small = kRoundingsOfTheFormula * of_small_;
    const Tensor squares = all(Sum::squares), elements = all(Sum::elements);
    const Tensor size = squares + elements * (squares.sum() / count_);
    return at::minimum(all(Sum::roundings), size * (most * most) + elements * (of_small * of_small));
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
    const Tensor squares = all(Sum::squares), of_formula = all(Sum::rounding_products).abs();
    const Tensor variance = all(Sum::rounding_variances) + all(Sum::fourth_powers) * (chance * chance);
    const Tensor is_large = squares / all(Sum::elements) >= squares.sum() * (kLargePart / count_);
    const Tensor largest_factor = at::where(is_large, of_formula / squares, 0.0).nan_to_num(0.0).max();
    // The rounding of a result is independent of the numbers that were stored before, so their variances add up.
    const Tensor by_chance = (variance * std::pow(kDeviationsOfAFactor * factor_, 2) +
                              all(Sum::product_variances) * std::pow(kDeviationsOfAProduct, 2))
                                 .sqrt();
    const Tensor allowed =
        at::maximum(of_formula * factor_ + by_chance, squares * largest_factor * (kMoreInAFactor * factor_));
    const Tensor of_stored = all(Sum::stored_products).sqrt() * kDeviationsOfAFactor;
    return largest_share(all(Sum::error_products).abs(), allowed + of_stored + all(Sum::sizes) * floor_,
                         "product of error and result");
  }

  double share_of_blocks(const Tensor& of_formula) {
    const Tensor elements = all(Sum::elements), found = (all(Sum::errors) / elements).sqrt();
    const Tensor by_chance = square_by_chance(all(Sum::fourth_powers), all(Sum::squares));
    const Tensor of_stored = all(Sum::stored) * (kDeviationsInABlock * kDeviationsInABlock);
    const Tensor allowed =
        (((of_formula + by_chance) * (factor_ * factor_) + of_stored) / elements).sqrt() * kMoreInABlock;
    return largest_share(found, allowed + floor_, "root mean square error");
  }

  double share_of_elements() {
    const Tensor of_formula = all(Sum::largest_rounding) * kMoreInAnElement + all(Sum::largest_exact) * unit_;
    const Tensor of_stored = all(Sum::largest_stored).sqrt() * kDeviationsInAnElement;
    return largest_share(all(Sum::largest_error), of_formula * factor_ + of_stored + floor_, "largest error");
  }

  double share_of_all(const Tensor& of_formula) {
    const Tensor by_chance = square_by_chance(all(Sum::fourth_powers).sum(), all(Sum::squares).sum());
    const Tensor square = (of_formula.sum() + by_chance) * (factor_ * factor_) + all(Sum::stored).sum();
    const double found = std::sqrt(all(Sum::errors).sum().item<double>() / count_);
    const double allowed = std::sqrt(square.item<double>() / count_) * kMoreInAll + floor_;
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
      say() << of_what << " in rows " << first << " to " << std::min(first + rows_, all_rows_) - 1;
    } else {
      say() << of_what << " in row " << first / cut_.pieces << " from column " << first % cut_.pieces * cut_.piece;
    }
    if (found.size(0) > 1) words_ << " of group " << at / blocks;
    words_ << " is " << found.flatten()[at].item<double>() << ", allowed are " << allowed.flatten()[at].item<double>();
    return share;
  }

  std::ostream& say() { return words_ << (words_.tellp() > 0 ? "; " : ""); }

  const Cut cut_;
  const Tensor sums_;   // [Sum, groups, blocks]
  const double count_;  // elements of the tensor
  const int64_t rows_;  // of a block
  const int64_t all_rows_;
  const double factor_, unit_, of_small_, floor_;
  std::ostringstream words_;
};

// Returns 0 for a finite number, and another number for each of NaN, infinity and -infinity.
Tensor kind_of(const Tensor& tensor) {
  return tensor.isnan().to(at::kChar) + at::isposinf(tensor).to(at::kChar) * 2 + at::isneginf(tensor).to(at::kChar) * 3;
}

// Counts the numbers of another kind than the formula's. A number that overflows in the dtype is finite in fp64. A NaN
// may come of two infinities in the dtype only, and then another order of operations may leave one of them.
int64_t count_wrong_kinds(const Tensor& value, const Tensor& of_formula, const Tensor& of_rounded) {
  const Tensor kind = kind_of(value), exact = kind_of(of_formula), rounded = kind_of(of_rounded);
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
  const Cut cut(value, bounds.row_width);
  const int64_t columns = value.dim() == 0 ? 1 : value.size(-1), rows = value.numel() / columns;
  const int64_t most = std::max<int64_t>(kElementsOfSlice / columns, 1), block = cut.rows_of_block();
  const int64_t step = (most + block - 1) / block * block;
  const auto& [of_elements, of_products] = expected.variance;
  TORCH_CHECK(!of_products.defined() || cut.pieces == 1, "variances of products are of rows of at most ",
              kElementsOfBlock, " elements, and these have ", cut.width);
  int64_t wrong = 0;
  std::vector<Tensor> sums;
  for (int64_t first = 0; first < rows; first += step) {
    const auto slice = [&](const Tensor& tensor) {
      return tensor.reshape({rows, -1}).narrow(0, first, std::min(step, rows - first)).to(at::kDouble);
    };
    const Tensor wide = slice(value), formula = slice(expected.exact), rounded = slice(expected.rounded);
    wrong += count_wrong_kinds(wide, formula, rounded);
    const Tensor finite = formula.isfinite().logical_and(rounded.isfinite());
    const auto where_finite = [&](const Tensor& tensor) { return at::where(finite, tensor, 0.0); };
    const Tensor exact = where_finite(formula);
    const Tensor none = at::zeros({1, 1}, exact.options());
    const Tensor stored = of_elements.defined() ? where_finite(slice(of_elements)) : none.expand(exact.sizes());
    const Tensor products =
        of_products.defined() ? slice(of_products) : none.expand({exact.size(0) * cut.pieces, columns / cut.width});
    sums.push_back(
        sums_of_blocks(cut, exact, where_finite(wide) - exact, where_finite(rounded) - exact, stored, products));
  }
  if (wrong > 0) {
    return {std::numeric_limits<double>::infinity(),
            std::to_string(wrong) + " numbers are not what the formula's are: finite, NaN, infinity or -infinity"};
  }
  return Comparison(cut, at::cat(sums, 2), value.numel(), bounds).agreement();
}

}  // namespace strata::kernels
