// SPDX-License-Identifier: MIT
// Checks what Recorded does for backwards that compute nothing, come twice, or return too much.
#include "kernels/runtime/recorded.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/runtime/call_observer.h"

namespace strata::kernels {
namespace {

struct Directions : CallObserver {
  void call(const OpShape&, Level, bool backward, at::ScalarType) override { text += backward ? 'b' : 'f'; }
  std::string text;
};

// An op whose backward returns the gradient of y for each of `kGradients` arguments.
template <size_t kGradients>
struct Doubled : Recorded<Doubled<kGradients>, RmsNormOp> {
  static Tensor forward(AutogradContext* context, const Kernel<RmsNormOp>&, const Tensor& x, double) {
    context->save_for_backward({x});
    return x * 2;
  }
  static variable_list backward(AutogradContext* context, const Kernel<RmsNormOp>&, const variable_list& gradients,
                                double) {
    context->get_saved_variables();
    return variable_list(kGradients, gradients[0] * 2);
  }
};

template <size_t kGradients>
Tensor doubled(const Tensor& x) {
  return Doubled<kGradients>::apply(Level::aten, RmsNormShape{.rows = 2, .width = 4}, x, 0.5);
}

TEST(Recorded, ABackwardThatComputesNothingIsNotReported) {
  const Tensor x = at::ones({2, 4}).requires_grad_(), weight = at::ones({4}).requires_grad_();
  Directions directions;
  const ObservedCalls observed(directions);
  add_rms_norm(x, at::ones({2, 4}), weight, 1e-5, Level::aten).sum.sum().backward();
  EXPECT_EQ(directions.text, "f");
  EXPECT_TRUE(x.grad().eq(1).all().item<bool>());
  EXPECT_FALSE(weight.grad().defined());
  add_rms_norm(x, at::ones({2, 4}), weight, 1e-5, Level::aten).y.sum().backward();
  EXPECT_EQ(directions.text, "ffb");
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Recorded, ASecondBackwardNeedsTheGraph) {
  const Tensor x = at::ones({2, 4}).requires_grad_(), y = doubled<1>(x).sum();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(x.grad().eq(4).all().item<bool>());
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST(Recorded, RefusesMoreGradientsThanArguments) {
  const Tensor x = at::ones({2, 4}).requires_grad_();
  EXPECT_THROW(doubled<3>(x).sum().backward(), c10::Error);
}

}  // namespace
}  // namespace strata::kernels
