// SPDX-License-Identifier: MIT
// The rule that decides if a level agrees with the formula: the allowed error per op and dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace strata::kernels {

// The tolerance of one op: c covers another order of the same sums; k is a handful of roundings, more for long sums.
// The allowed error is the largest of three bounds: c * error of aten in the same dtype, and k * eps * largest value of
// the reference. The third bound is a few roundings of the operands if the result is a difference.
struct Tolerance {
  std::string_view op;
  double c = 0, k = 0;
  double k_of_16_bits = k;  // for types that are summed in a wider type, for sums of any length
  // True if errors are compared with the largest value of all results, because differences may cancel to 0.
  bool of_all_results = false;

  double k_of(at::ScalarType dtype) const { return at::elementSize(dtype) == 2 ? k_of_16_bits : k; }
};

// Returns the distance from 1 to the next number of a floating point type.
double epsilon(at::ScalarType dtype);

// Returns the largest absolute value, 0 for an empty tensor, and NaN if the tensor has one.
double largest(const at::Tensor& tensor);

// The measured values of one result, before it is judged. All are absolute.
struct Measured {
  double error;       // error of the level: largest |value - reference|
  double aten_error;  // error of aten in the same dtype; 0 for aten itself
  double scale;       // largest |reference|
  // Largest operand of the difference that the result is, if it may cancel; 0 if nothing cancels.
  double operands = 0.0;
};

double allowed_error(const Tolerance& tolerance, at::ScalarType dtype, const Measured& measured);

}  // namespace strata::kernels
