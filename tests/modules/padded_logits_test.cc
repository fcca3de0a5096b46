// SPDX-License-Identifier: MIT
// Checks that padding classes change neither the loss nor a gradient.
#include "modules/padded_logits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/softcap.h"
#include "kernels/linear/linear.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::modules {
namespace {

using kernels::Level;

constexpr int64_t kRows = 9, kWidth = 6, kClasses = 37, kMore = 27, kIgnored = -100;

struct Result {
  Tensor loss, hidden_gradient, weight_gradient;
};

class PaddedLogits : public testing::TestWithParam<Level> {
 protected:
  // The loss and the gradients; that of the weight is in `destination` if there is one.
  Result run(int64_t more, double softcap, const Tensor& destination = {}) const {
    const Tensor hidden = hidden_.clone().requires_grad_(), weight = weight_.clone().requires_grad_();
    if (destination.defined()) {
      kernels::set_gradient_destination(weight, [&] { return kernels::GradientDestination{destination, false}; });
    }
    const auto plain = [&] { return kernels::linear(hidden, weight, {}, kernels::Activation::none, GetParam()); };
    const Tensor logits =
        more == 0 ? kernels::capped_logits(plain(), softcap) : padded_logits(hidden, weight, more, softcap, GetParam());
    EXPECT_EQ(logits.size(1), kClasses + more);
    const Tensor loss = kernels::cross_entropy(logits, targets_, at::full({}, 1.0 / kRows), kIgnored,
                                               /*label_smoothing=*/0, GetParam());
    loss.backward();
    return {loss.detach(), hidden.grad(), destination.defined() ? destination : weight.grad()};
  }

 private:
  const Tensor hidden_ = at::randn({kRows, kWidth}), weight_ = at::randn({kClasses, kWidth}),
               targets_ = at::randint(0, kClasses, {kRows}, at::kLong);
};

void expect_close(const Result& result, const Result& expected) {
  EXPECT_TRUE(at::allclose(result.loss, expected.loss, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(result.hidden_gradient, expected.hidden_gradient, 1e-5, 1e-6));
  ASSERT_EQ(result.weight_gradient.sizes(), expected.weight_gradient.sizes());
  EXPECT_TRUE(at::allclose(result.weight_gradient, expected.weight_gradient, 1e-5, 1e-6));
}

TEST_P(PaddedLogits, ChangeNeitherLossNorGradients) {
  for (const double softcap : {0.0, 0.8}) expect_close(run(kMore, softcap), run(/*more=*/0, softcap));
}

TEST_P(PaddedLogits, SendTheGradientToItsDestination) {
  expect_close(run(kMore, /*softcap=*/0.8, at::full({kClasses, kWidth}, NAN)), run(/*more=*/0, /*softcap=*/0.8));
}

INSTANTIATE_TEST_SUITE_P(Levels, PaddedLogits, testing::Values(Level::aten, Level::torchscript),
                         [](const auto& info) { return std::string(kernels::name(info.param)); });

TEST(PaddingClasses, AreNoneOnCpus) { EXPECT_EQ(padding_classes(at::ones({50257, 2})), 0); }

}  // namespace
}  // namespace strata::modules
