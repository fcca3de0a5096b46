// SPDX-License-Identifier: MIT
// Compares the gradients of an op with those that plain loops have computed.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/proof/plain_tensor.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// `op` computes outputs from `leaves`, which require gradients. Given the gradients of its outputs, each leaf must have
// the gradient at its place in `expected`, at the formula's level and at level aten.
inline void expect_gradients(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& output_gradients,
                             const std::vector<Plain>& expected,
                             const std::function<std::vector<at::Tensor>(Level)>& op) {
  for (const Level level : {kFormulaLevel, Level::aten}) {
    SCOPED_TRACE(name(level));
    const auto gradients = torch::autograd::grad(op(level), leaves, output_gradients);
    ASSERT_EQ(gradients.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE("gradient of leaf " + std::to_string(i));
      expect_equal(gradients[i], expected[i]);
    }
  }
}

}  // namespace strata::kernels
