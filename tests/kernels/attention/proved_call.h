// SPDX-License-Identifier: MIT
// ProvedCall: what the rule of agreement needs to judge values of a random call of attention.
#pragma once

#include <string>
#include <vector>

#include "kernels/proof/agreement.h"
#include "tests/kernels/attention/attention_by_loops.h"
#include "tests/kernels/attention/random_attention.h"

namespace strata::kernels {

class ProvedCall {
 public:
  // Computes the call by loops over pairs, in fp64 on inputs that are rounded to `dtype`, and by the definition. The
  // test fails if these two differ in fp64.
  ProvedCall(const RandomAttention& call, at::ScalarType dtype);

  // The result and the gradients of all leaves that a kernel has computed, in fp64. Returns the first sentence that
  // refuses one of them, or nothing.
  std::string refusal(const std::vector<Tensor>& values) const;

  // The values of a kernel that sees these pairs, and rounds each value once.
  std::vector<Tensor> values_that_see(const VisiblePairs& visible) const;

  const VisiblePairs& visible() const { return visible_; }

 private:
  const RandomAttention& call_;
  at::ScalarType dtype_;
  std::vector<Tensor> leaves_;
  Tensor grad_y_;
  VisiblePairs visible_;
  std::vector<Comparison> comparisons_;
};

}  // namespace strata::kernels
