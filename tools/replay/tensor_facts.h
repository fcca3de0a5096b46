// SPDX-License-Identifier: MIT
// Counts the values of a tensor that are NaN or infinite, and finds the largest of the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace strata::tools {

struct TensorFacts {
  int64_t nan = 0, infinite = 0;
  double largest = 0;  // absolute, of the finite values; 0 if there are none

  bool finite() const { return nan == 0 && infinite == 0; }
};

// Waits for the device. Undefined tensors, tensors without values and tensors of integers are finite. Records no op.
TensorFacts facts_of(const at::Tensor& tensor);

// Returns the facts of both together.
TensorFacts operator+(const TensorFacts& one, const TensorFacts& two);

// Returns "finite, at most 3.1e+00" or "2 NaN, 1 infinite, others at most 3.1e+00".
std::string to_text(const TensorFacts& facts);

}  // namespace strata::tools
