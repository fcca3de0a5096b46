// SPDX-License-Identifier: MIT
#include "kernels/rms_norm/rms_norm_loops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

namespace strata::kernels {
namespace {

constexpr double kEps = 1e-5;

// x / sqrt(mean(x^2) + eps) * weight in fp64
Tensor definition(const Tensor& x, const Tensor& weight) {
  const Tensor wide = x.to(at::kDouble);
  return wide / (wide.square().mean(-1, /*keepdim=*/true) + kEps).sqrt() * weight.to(at::kDouble);
}

TEST(RmsNormLoops, EqualTheirDefinition) {
  const c10::InferenceMode inference;
  at::manual_seed(2);
  for (const int64_t width : {1, 7, 16, 33, 128, 1000}) {
    for (const int64_t rows : {1, 3, 16}) {
      const Tensor x = at::randn({rows, 1, width}) * 3, branch = at::randn({1, rows, width}).transpose(0, 1);
      const Tensor weight = at::randn({width, 2}).select(1, 0);  // neither is contiguous
      ASSERT_TRUE(has_rms_norm_loops(x));
      const RmsNormOp::Output alone = rms_norm_by_loops(x, {}, weight, kEps);
      EXPECT_LT((alone.y - definition(x, weight)).abs().max().item<double>(), 1e-5) << rows << " of " << width;
      EXPECT_FALSE(alone.sum.defined());
      EXPECT_TRUE(at::equal(rms_norm(x, weight, kEps, Level::aten), alone.y));
      const auto in_slot = [&](const Tensor& other) {
        return RmsNormOp::kKernels.aten.forward(x, other, weight, kEps).y;
      };
      EXPECT_TRUE(at::equal(in_slot({}), alone.y));  // the table has the loops, so nothing stands before it
      const RmsNormOp::Output added = rms_norm_by_loops(x, branch, weight, kEps);
      EXPECT_TRUE(at::equal(in_slot(branch), added.y));
      EXPECT_TRUE(at::equal(added.sum, x + branch)) << rows << " of " << width;
      EXPECT_LT((added.y - definition(x + branch, weight)).abs().max().item<double>(), 1e-5) << rows << " of " << width;
    }
  }
}

TEST(RmsNormLoops, OnlyFewElementsInInferenceMode) {
  const Tensor few = at::randn({1, 128}), many = at::randn({200, 128});
  {
    const at::NoGradGuard no_gradients;  // as when activations are recomputed
    EXPECT_FALSE(has_rms_norm_loops(few));
  }
  const c10::InferenceMode inference;
  EXPECT_TRUE(has_rms_norm_loops(few));
  EXPECT_FALSE(has_rms_norm_loops(many));
  EXPECT_FALSE(has_rms_norm_loops(few.to(at::kDouble)));
  EXPECT_FALSE(has_rms_norm_loops(at::randn({64, 2}).t()));
}

}  // namespace
}  // namespace strata::kernels
