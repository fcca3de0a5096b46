// SPDX-License-Identifier: MIT
// Right kernels that compute otherwise than the definition: they add the numbers of a sum in another order, they have
// the softmax of 64 keys at a time, or they round the operands of products, as tensor cores need them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <string_view>
#include <vector>

namespace strata::kernels {

enum class Sums {
  as_defined,
  in_chunks,  // of 64 numbers, one chunk after another
  reversed,   // from the last number to the first
  split,      // in 4 parts, which are added: split-K
};

struct HonestKernel {
  std::string_view name;
  Sums sums = Sums::as_defined;
  bool streams_softmax = false;  // over 64 keys at a time, with the largest score so far
  bool rounds_operands = false;  // of matrix products, to the 16 bits of the inputs: probabilities and gradients too
};

// All that make sense for an op whose inputs have this dtype.
std::vector<HonestKernel> honest_kernels(at::ScalarType dtype);

// While it lives, sums, means, matrix products, softmax and sums over edges in fp32 are computed as `kernel` does it,
// forward and backward, also those in TorchScript.
class Computing {
 public:
  Computing(const HonestKernel& kernel, at::ScalarType dtype);
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

  // The number of operations that were computed otherwise.
  int64_t count() const;

 private:
  const c10::impl::IncludeDispatchKeyGuard included_;
};

// Texts of definitions in which the output of attention and the sums of losses are computed 64 keys or classes at a
// time. Returns the definition as it is if it has neither.
std::string streamed(const std::string& definition);

}  // namespace strata::kernels
