// SPDX-License-Identifier: MIT
// The rule by which a level agrees with the formula: what an error may be, per op and dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace strata::kernels {

// An error is accepted up to max(c * error of aten in the same dtype, k * eps * largest value of the reference), and up
// to a few roundings of the numbers whose difference the result is.
struct Tolerance {
  std::string_view op;
  double c, k;
  double k_of_16_bits = k;  // of types whose sums are in a wider one, however long they are

  double k_of(at::ScalarType dtype) const { return at::elementSize(dtype) == 2 ? k_of_16_bits : k; }
};

// Throws for an op that is not in the table.
Tolerance tolerance(std::string_view op);

// The distance from 1 to the next number of a floating point type.
double epsilon(at::ScalarType dtype);

// The largest absolute value; 0 of an empty tensor. Not a number when there is one in it.
double largest(const at::Tensor& tensor);

// What is known of one result before it is judged. All in absolute numbers.
struct Measured {
  double error;       // of the level: largest |value - reference|
  double aten_error;  // the same of aten in the same dtype; 0 for aten itself
  double scale;       // largest |reference|
  // Largest of the numbers whose difference the result is, where they may cancel; 0 where nothing cancels.
  double operands = 0.0;
};

double allowed_error(const Tolerance& tolerance, at::ScalarType dtype, const Measured& measured);

}  // namespace strata::kernels
