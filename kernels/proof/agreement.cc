// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "kernels/proof/block_sums.h"

namespace strata::kernels {
namespace {

// A tensor is read in slices of this many elements. The comparison of a slice takes about ten times its memory in fp64.
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
// The same for Variance::product_variance, which is no upper bound but the variance itself. If that is all of the
// error, one of 150,000 blocks has more.
constexpr double kDeviationsOfAProduct = 4.5;
// The same for Variance::square_variance, to which kMoreInABlock and kMoreInAll count too. The square of one rounding
// is at most 4.4 standard deviations above its mean.
constexpr double kDeviationsOfSquares = 3;
constexpr double kLargePart = 0.25;  // share of the tensor's mean square; in smaller blocks a factor may be chance
// The error of the formula counts up to this many roundings of numbers that are as large as in the block and in the
// tensor. In a difference that nearly cancels, the roundings of its operands may be larger than all of the result.
constexpr double kRoundingsOfTheFormula = 4;
// Numbers of fp16 below 2^-14 have fewer bits. Their rounding is up to 2^-25, however small they are.
constexpr double kSmallestRoundingOfHalf = 0x1p-25;

// What is allowed in each block, [groups, blocks], and in the root mean square of all.
struct Allowed {
  Tensor elements, product, root_mean_square, largest;
  double total = 0;
};

// Computes it from the sums of all blocks of a tensor with `count` elements.
class BoundRule {
 public:
  BoundRule(const Tensor& sums, double count, const Bounds& bounds)
      : sums_(sums),
        count_(count),
        factor_(bounds.factor),
        unit_(unit_roundoff(bounds.dtype)),
        smallest_rounding_(bounds.dtype == at::kHalf ? kSmallestRoundingOfHalf : 0.0),
        floor_(bounds.roundings * unit_roundoff(at::kFloat) *
               std::max(bounds.largest, largest(all(Sum::largest_exact)))) {}

  Allowed allowed() const {
    const Tensor formula_error = square_of_formula();
    return {all(Sum::elements), product(), root_mean_square(formula_error), element_bound(),
            total_bound(formula_error)};
  }

 private:
  // Returns [groups, blocks].
  Tensor all(Sum sum) const { return sums_.select(0, static_cast<int64_t>(sum)); }

  // Returns the sum of the squares of the formula's error in each block, at most the error of kRoundingsOfTheFormula
  // roundings.
  Tensor square_of_formula() const {
    const double most = kRoundingsOfTheFormula * unit_, smallest_rounding = kRoundingsOfTheFormula * smallest_rounding_;
    const Tensor squares = all(Sum::squares), elements = all(Sum::elements);
    const Tensor size = squares + elements * (squares.sum() / count_);
    return at::minimum(all(Sum::roundings), size * (most * most) + elements * (smallest_rounding * smallest_rounding));
  }

  // Returns the square of the error of kRoundingsByChance roundings. The quotient is the square of one element if all
  // of them are equal, or if one is much larger than the others.
  Tensor square_by_chance(const Tensor& fourth_powers, const Tensor& squares) const {
    const double chance = kRoundingsByChance * unit_;
    return at::where(squares == 0, squares, fourth_powers / squares) * (chance * chance);
  }

  // The product of error and result finds a factor that is a little wrong, such as a norm that was rounded to 16 bits.
  // Where few rounded numbers make up a row, as in the gradient of a product's input, the formula has such factors too.
  Tensor product() const {
    const double chance = kRoundingsOfAFactor * unit_;
    const Tensor squares = all(Sum::squares), formula_error = all(Sum::rounding_products).abs();
    const Tensor variance = all(Sum::rounding_variances) + all(Sum::fourth_powers) * (chance * chance);
    const Tensor is_large = squares / all(Sum::elements) >= squares.sum() * (kLargePart / count_);
    const Tensor largest_factor = at::where(is_large, formula_error / squares, 0.0).nan_to_num(0.0).max();
    // The rounding of a result is independent of the numbers that were stored before, so their variances add up.
    const Tensor chance_error = (variance * std::pow(kDeviationsOfAFactor * factor_, 2) +
                                 all(Sum::product_variances) * std::pow(kDeviationsOfAProduct, 2))
                                    .sqrt();
    const Tensor result_bound =
        at::maximum(formula_error * factor_ + chance_error, squares * largest_factor * (kMoreInAFactor * factor_));
    const Tensor stored_error = all(Sum::stored_products).sqrt() * kDeviationsOfAFactor;
    return result_bound + stored_error + all(Sum::sizes) * floor_;
  }

  Tensor root_mean_square(const Tensor& formula_error) const {
    const Tensor chance_error = square_by_chance(all(Sum::fourth_powers), all(Sum::squares));
    const Tensor stored_error = all(Sum::stored) * (kDeviationsInABlock * kDeviationsInABlock) +
                                all(Sum::square_variances).sqrt() * kDeviationsOfSquares;
    const Tensor squares = (formula_error + chance_error) * (factor_ * factor_) + stored_error;
    return (squares / all(Sum::elements)).sqrt() * kMoreInABlock + floor_;
  }

  Tensor element_bound() const {
    const Tensor formula_error = all(Sum::largest_rounding) * kMoreInAnElement + all(Sum::largest_exact) * unit_;
    const Tensor stored_error = all(Sum::largest_stored).sqrt() * kDeviationsInAnElement;
    return formula_error * factor_ + stored_error + floor_;
  }

  double total_bound(const Tensor& formula_error) const {
    const Tensor chance_error = square_by_chance(all(Sum::fourth_powers).sum(), all(Sum::squares).sum());
    const Tensor stored_error = all(Sum::stored).sum() + all(Sum::square_variances).sum().sqrt() * kDeviationsOfSquares;
    const Tensor square = (formula_error.sum() + chance_error) * (factor_ * factor_) + stored_error;
    return std::sqrt(square.item<double>() / count_) * kMoreInAll + floor_;
  }

  const Tensor sums_;  // [Sum, groups, blocks]
  const double count_, factor_, unit_, smallest_rounding_, floor_;
};

// Compares the errors of a value with what is allowed.
class Verdict {
 public:
  // `errors` is [ErrorSum, groups, blocks], of a tensor with `count` elements.
  Verdict(const Cut& cut, const Tensor& errors, int64_t count)
      : cut_(cut),
        errors_(errors),
        count_(static_cast<double>(count)),
        rows_(cut.rows_of_block()),
        all_rows_(count / (cut.width * errors.size(1))) {}

  Agreement agreement(const Allowed& allowed) {
    const Tensor squares = of(ErrorSum::squares);
    const double product_share =
        largest_share(of(ErrorSum::products).abs(), allowed.product, "product of error and result");
    const double block_share =
        largest_share((squares / allowed.elements).sqrt(), allowed.root_mean_square, "root mean square error");
    const double element_share = largest_share(of(ErrorSum::largest), allowed.largest, "largest error");
    Agreement result;
    result.share = std::max({product_share, block_share, element_share, share_of_all(squares, allowed.total)});
    result.words = words_.str();
    return result;
  }

 private:
  Tensor of(ErrorSum sum) const { return errors_.select(0, static_cast<int64_t>(sum)); }

  double share_of_all(const Tensor& squares, double allowed) {
    const double found = std::sqrt(squares.sum().item<double>() / count_);
    if (found > allowed) say() << "root mean square error of all rows is " << found << ", allowed are " << allowed;
    return found == 0 ? 0 : found / allowed;
  }

  // Returns the largest share, and writes where it is if it is more than 1.
  double largest_share(const Tensor& found, const Tensor& allowed, const char* what) {
    const Tensor shares = at::where(found == 0, 0.0, found / allowed).flatten();
    const int64_t at = shares.argmax().item<int64_t>();
    const double share = shares[at].item<double>();
    if (share <= 1) return share;
    const int64_t blocks = found.size(1), first = at % blocks * rows_;
    if (cut_.pieces == 1) {
      say() << what << " in rows " << first << " to " << std::min(first + rows_, all_rows_) - 1;
    } else {
      say() << what << " in row " << first / cut_.pieces << " from column " << first % cut_.pieces * cut_.piece;
    }
    if (found.size(0) > 1) words_ << " of group " << at / blocks;
    words_ << " is " << found.flatten()[at].item<double>() << ", allowed are " << allowed.flatten()[at].item<double>();
    return share;
  }

  std::ostream& say() { return words_ << (words_.tellp() > 0 ? "; " : ""); }

  const Cut& cut_;
  const Tensor errors_;
  const double count_;  // elements of the tensor
  const int64_t rows_;  // rows of a block
  const int64_t all_rows_;
  std::ostringstream words_;
};

// A sum of numbers is finite only if all of them are.
bool all_finite(const Tensor& tensor) { return std::isfinite(tensor.sum().item<double>()); }

// Returns 0 for a finite number, and another number for each of NaN, infinity and -infinity.
Tensor kind_of(const Tensor& tensor) {
  return tensor.isnan().to(at::kChar) + at::isposinf(tensor).to(at::kChar) * 2 + at::isneginf(tensor).to(at::kChar) * 3;
}

// Counts the numbers of another kind than the formula's. A number that overflows in the dtype is finite in fp64. A NaN
// may come of two infinities in the dtype only, and then another order of operations may leave one of them.
int64_t count_wrong_kinds(const Tensor& value, const Tensor& exact_value, const Tensor& rounded_value) {
  const Tensor kind = kind_of(value), exact = kind_of(exact_value), rounded = kind_of(rounded_value);
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

struct Comparison::Formula {
  Formula(Expected expected_value, int64_t row_width)
      : expected(std::move(expected_value)),
        cut(expected.exact, row_width),
        columns(expected.exact.dim() == 0 ? 1 : expected.exact.size(-1)),
        rows(columns == 0 ? 0 : expected.exact.numel() / columns) {
    const int64_t most = std::max<int64_t>(kElementsOfSlice / std::max<int64_t>(columns, 1), 1);
    const int64_t block = cut.rows_of_block();
    step = (most + block - 1) / block * block;
  }

  // Returns some rows of a tensor with the sizes of the formula, or of variances of its rows.
  Tensor slice(const Tensor& tensor, int64_t first) const {
    return tensor.reshape({rows, -1}).narrow(0, first, std::min(step, rows - first)).to(at::kDouble);
  }

  const Expected expected;
  const Cut cut;
  const int64_t columns, rows;
  int64_t step = 0;  // rows of a slice
  bool finite = true;
  Allowed allowed;
};

Comparison::Comparison(Expected expected, const Bounds& bounds) {
  const auto formula = std::make_shared<Formula>(std::move(expected), bounds.row_width);
  formula_ = formula;
  const auto& [exact_rows, rounded_rows, variance] = formula->expected;
  TORCH_CHECK((!variance.product_variance.defined() && !variance.square_variance.defined()) || formula->cut.pieces == 1,
              "variances of products and squares are of rows of at most ", kElementsOfBlock,
              " elements, and these have ", formula->cut.width);
  std::vector<Tensor> sums;
  for (int64_t first = 0; first < formula->rows; first += formula->step) {
    const auto slice = [&](const Tensor& tensor) { return tensor.defined() ? formula->slice(tensor, first) : tensor; };
    Tensor exact = slice(exact_rows), rounded = slice(rounded_rows), stored = slice(variance.element_variance);
    if (!all_finite(exact) || !all_finite(rounded)) {
      formula->finite = false;
      const Tensor finite = exact.isfinite().logical_and(rounded.isfinite());
      for (Tensor* tensor : {&exact, &rounded, &stored}) {
        if (tensor->defined()) *tensor = at::where(finite, *tensor, 0.0);
      }
    }
    sums.push_back(sums_of_formula(formula->cut, exact, rounded - exact, stored, slice(variance.product_variance),
                                   slice(variance.square_variance)));
  }
  if (sums.empty()) return;
  formula->allowed = BoundRule(at::cat(sums, 2), static_cast<double>(exact_rows.numel()), bounds).allowed();
}

Agreement Comparison::agreement(const Tensor& value) const {
  const Formula& formula = *formula_;
  TORCH_CHECK(value.sizes() == formula.expected.exact.sizes(), "a result of sizes ", value.sizes(), ", expected were ",
              formula.expected.exact.sizes());
  if (value.numel() == 0) return {};
  int64_t wrong = 0;
  std::vector<Tensor> errors;
  for (int64_t first = 0; first < formula.rows; first += formula.step) {
    Tensor wide = formula.slice(value, first), exact = formula.slice(formula.expected.exact, first);
    if (!formula.finite || !all_finite(wide)) {
      const Tensor rounded = formula.slice(formula.expected.rounded, first);
      wrong += count_wrong_kinds(wide, exact, rounded);
      const Tensor finite = exact.isfinite().logical_and(rounded.isfinite());
      wide = at::where(finite, wide, 0.0);
      exact = at::where(finite, exact, 0.0);
    }
    errors.push_back(sums_of_errors(formula.cut, exact, wide - exact));
  }
  if (wrong > 0) {
    return {std::numeric_limits<double>::infinity(),
            std::to_string(wrong) + " numbers are not what the formula's are: finite, NaN, infinity or -infinity"};
  }
  return Verdict(formula.cut, at::cat(errors, 2), value.numel()).agreement(formula.allowed);
}

Agreement agreement(const Tensor& value, const Expected& expected, const Bounds& bounds) {
  return Comparison(expected, bounds).agreement(value);
}

}  // namespace strata::kernels
