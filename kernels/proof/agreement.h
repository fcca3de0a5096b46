// SPDX-License-Identifier: MIT
// The rule that decides if a result agrees with the formula. Four bounds are checked: the root mean square of the error
// in each block of rows, the same over the whole tensor, the largest error in each block, and the product of the error
// and the result in each block. A row of more than 512 elements is several blocks.
//
// An op is allowed the error that the formula itself has in the same dtype. The formula rounds where a kernel stores a
// tensor, and nowhere else. An intermediate result that is kept in 16 bits adds about 40 % to that error, and is
// refused. If all kernels of an op must store such results, the proof of the op gives the variance of the errors that
// they cause. A kernel sums in another order than the formula. Sums are fp32, so a few roundings of fp32 are allowed,
// measured by the largest number of the tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::kernels {

using at::Tensor;

// The error that an op is allowed beyond the error of the formula.
struct Tolerance {
  std::string_view op;
  double at_aten = 1;     // a factor for level aten: each of LibTorch's ops stores its result in 16 bits
  double roundings = 64;  // roundings of fp32, each 2^-24 of the largest number
};

// Returns the largest relative error of rounding to a floating point type: half of the distance from 1 to the next.
double unit_roundoff(at::ScalarType dtype);

// Returns the largest absolute value, 0 for an empty tensor, and NaN if the tensor has one.
double largest(const Tensor& tensor);

// The variance of the error by numbers that kernels must store before the result. A tensor is undefined if there is
// none.
struct Variance {
  Tensor element_variance = {};  // variance of the error of each element; all bounds have a part for it
  // The variances of two sums over each row, [..., columns / Bounds::row_width]: that of error * exact, for the bound
  // of the product, and that of error^2, for those of the root mean squares. If few roundings make up a row, all of
  // them may be large by chance. A row has at most 512 elements, whose errors are independent of those of other rows.
  Tensor product_variance = {}, square_variance = {};
};

// One result of the formula. All tensors are on one device and of any floating point type.
struct Expected {
  Tensor exact;    // computed in fp64
  Tensor rounded;  // computed in the dtype of the kernel
  Variance variance = {};
};

// Returns Expected::variance of the results, then of the gradients of the leaves, for kernels of type `dtype`. Tensors
// have at most `elements` elements, besides leaves and results. Empty for ops without such errors.
using Variances =
    std::function<std::vector<Variance>(const std::vector<Tensor>& leaves, const std::vector<Tensor>& result_gradients,
                                        at::ScalarType dtype, int64_t elements)>;

struct Bounds {
  at::ScalarType dtype = at::kFloat;  // type of the result
  // A factor on the error of the formula, where kernels store in 16 bits what the formula does not store, or where the
  // errors of a row are not independent.
  double factor = 1;
  double roundings = 64;  // Tolerance::roundings, or more for long sums
  double largest = 0;     // largest number that was rounded: a result's, or the operand of a difference
  // Width of a row of the result. Packed tensors have several kinds of rows side by side, such as queries, keys and
  // values. If it is 0, or does not divide the last dimension, a row is as wide as the last dimension.
  int64_t row_width = 0;
};

struct Agreement {
  double share = 0;   // error as a share of the allowed one, the largest of the four, or infinity
  std::string words;  // where and by how much, if share > 1

  bool agreed() const { return share <= 1; }
};

// The difference of one result or gradient to the formula.
struct Deviation {
  std::string name;  // "output 0", "gradient of leaf 1"
  Agreement agreement;
};

// What the rule needs of the formula, which is most of its work. Many values may be compared with one formula.
class Comparison {
 public:
  Comparison(Expected expected, const Bounds& bounds);

  // `value` has the sizes and the device of the expected tensors. Where the formula is not finite, the value must be
  // the same: NaN, infinity or -infinity. If the formula in fp64 and in the dtype are two different ones of these, any
  // of the three will do. If this is violated, the share is infinity.
  Agreement agreement(const Tensor& value) const;

 private:
  struct Formula;
  std::shared_ptr<const Formula> formula_;
};

// The same for one value.
Agreement agreement(const Tensor& value, const Expected& expected, const Bounds& bounds);

}  // namespace strata::kernels
