// SPDX-License-Identifier: MIT
// Checks that gradients of weights go to their destinations, at levels with a backward of their own and at levels that
// autograd differentiates.
#include "kernels/runtime/gradient_destination.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "kernels/embedding/embedding.h"
#include "kernels/linear/linear.h"

namespace strata::kernels {
namespace {

class WeightGradients : public testing::TestWithParam<Level> {};

// An embedding and the head share a weight. The first gradient overwrites the buffer, the second one is added.
TEST_P(WeightGradients, OfATiedWeightAreSummedIntoOneBuffer) {
  const Tensor weight = at::randn({6, 4}).requires_grad_(), indices = at::randint(0, 6, {3, 5}, at::kLong);
  const auto loss = [&] {
    return linear(embedding(indices, weight, GetParam()), weight, {}, Activation::none, GetParam()).square().sum();
  };
  loss().backward();
  const Tensor expected = weight.grad().clone();
  weight.mutable_grad().reset();

  const Tensor buffer = at::full({6, 4}, NAN);
  int gradients = 0;
  set_gradient_destination(weight, [&] { return GradientDestination{buffer, gradients++ > 0}; });
  loss().backward();
  EXPECT_EQ(gradients, 2);
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_LT((buffer - expected).abs().max().item<double>(), 1e-4);

  clear_gradient_destination(weight);
  loss().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_EQ(gradients, 2);
}

// A parameter's storage moves between slots. Tensors that were saved for backward move with it, and nothing is copied.
TEST_P(WeightGradients, FollowAStorageThatMoves) {
  const Tensor x = at::randn({3, 4}).requires_grad_(), values = at::randn({2, 4});
  const auto point_at = [](const Tensor& tensor, const Tensor& memory) {
    tensor.storage().set_data_ptr_noswap(at::DataPtr(memory.data_ptr(), c10::Device(at::kCPU)));
  };
  const Tensor first_slot = values.clone(), second_slot = values.clone(), weight = at::randn({2, 4}).requires_grad_();
  point_at(weight, first_slot);
  const Tensor y = linear(x, weight, {}, Activation::none, GetParam());
  first_slot.fill_(NAN);  // released after the forward
  point_at(weight, second_slot);
  y.sum().backward();
  EXPECT_LT((x.grad() - values.sum(0)).abs().max().item<double>(), 1e-5);
  point_at(weight, values);  // this memory outlives the weight
}

INSTANTIATE_TEST_SUITE_P(Levels, WeightGradients, testing::Values(Level::aten, Level::torchscript),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(GradientDestination, IsOfTheWeightAlone) {
  const Tensor weight = at::randn({2}).requires_grad_();
  set_gradient_destination(weight, [] { return GradientDestination{at::full({2}, 0.0), true}; });
  EXPECT_TRUE(take_gradient_destination(weight).into.defined());
  for (const Tensor& other : {weight.detach(), weight.variable_data(), weight.view({2}), weight.clone(), Tensor()}) {
    EXPECT_FALSE(take_gradient_destination(other).into.defined());
  }
  EXPECT_TRUE(take_gradient_destination(weight).into.defined());
  clear_gradient_destination(weight);
  EXPECT_FALSE(take_gradient_destination(weight).into.defined());
}

}  // namespace
}  // namespace strata::kernels
