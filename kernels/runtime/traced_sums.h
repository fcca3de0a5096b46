// SPDX-License-Identifier: MIT
// Sums of gradients by autograd. It adds in place if nothing else refers to one of the two gradients, but never for
// meta tensors, which it takes for a tensor subclass. A traced backward would need one gradient more than the real one.
#pragma once

#include <ATen/record_function.h>
#include <torch/library.h>

namespace strata::kernels {

// While it lives, a sum of two meta gradients is written over one of them, as sums of other tensors are.
class SumsInPlace {
 public:
  SumsInPlace();
  ~SumsInPlace();
  SumsInPlace(const SumsInPlace&) = delete;
  SumsInPlace& operator=(const SumsInPlace&) = delete;

 private:
  at::CallbackHandle handle_;
};

// Registers the kernel of aten::add that does this.
void add_meta_sum(torch::Library& aten);

}  // namespace strata::kernels
