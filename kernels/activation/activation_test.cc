// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include "kernels/activation/plain_activation.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Activation) {
  const int64_t width = 6;
  const Plain x = ramp(2 * width);
  for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
    Plain expected;
    for (const double value : x) expected.push_back(plain_activation(value, kind));
    expect_equal(activation(tensor(x, {2, width}), kind, kFormulaLevel), expected);
  }
}

// Op linear saves one of the two for the backward of its epilogue.
TEST(Formula, TheDerivativeOfAnActivationFollowsFromItsInputOrItsOutput) {
  for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
    EXPECT_NE(needs_input(kind), saves_output(kind)) << name(kind);
  }
}

}  // namespace
}  // namespace strata::kernels
