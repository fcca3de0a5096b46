// SPDX-License-Identifier: MIT
// Level cuda of linear_cross_entropy with vocabularies whose rows of logits are no whole vectors. It fills the rows up
// with columns that are no classes, and neither targets nor label smoothing may take them for classes.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRows = 300, kWidth = 64;
constexpr auto kGpu = at::kCUDA;

class FilledRows : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

// Returns the loss and the gradients of both leaves.
std::vector<Tensor> run(const Tensor& hidden, const Tensor& weight, const Tensor& targets, double smoothing,
                        double softcap, Level level) {
  const Tensor x = hidden.detach().clone().requires_grad_(), w = weight.detach().clone().requires_grad_();
  const Tensor scale = at::full({}, 1.0 / kRows, at::TensorOptions(at::kFloat).device(kGpu));
  const Tensor loss = linear_cross_entropy(x, w, targets, scale, -100, smoothing, softcap, level);
  loss.backward();
  return {loss.detach(), x.grad(), w.grad()};
}

double relative(const Tensor& value, const Tensor& expected) {
  const Tensor wide = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// 20001 and 50257 classes go through the ring in bf16, 1003 through registers, 200 through a warp. 400001 are too many
// for the ring in fp32.
TEST_F(FilledRows, AgreeWithTheFormula) {
  for (const int64_t classes : {200, 1003, 20001, 50257, 400001}) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(std::to_string(classes) + " classes, label smoothing " + std::to_string(smoothing) +
                     (dtype == at::kFloat ? ", fp32" : ", bf16"));
        const at::TensorOptions options = at::TensorOptions(dtype).device(kGpu);
        const int64_t rows = classes > 100000 ? 40 : kRows;
        const Tensor hidden = at::randn({rows, kWidth}, options);
        const Tensor weight = at::randn({classes, kWidth}, options).div_(std::sqrt(double(kWidth)));
        const Tensor targets = at::randint(classes, {rows}, at::TensorOptions(at::kLong).device(kGpu));
        targets[0].fill_(classes - 1);
        targets[1].fill_(-100);
        // A cap must leave the columns that fill up the rows as they are.
        const double softcap = smoothing == 0 ? 0 : 1.5;
        const auto found = run(hidden, weight, targets, smoothing, softcap, Level::cuda);
        const auto expected =
            run(hidden.to(at::kDouble), weight.to(at::kDouble), targets, smoothing, softcap, Level::torchscript);
        const double tolerance = dtype == at::kFloat ? 1e-4 : 1e-2;
        EXPECT_LT(relative(found[0], expected[0]), tolerance / 10);
        for (size_t i = 1; i < found.size(); ++i) {
          ASSERT_EQ(found[i].sizes(), expected[i].sizes());
          EXPECT_LT(relative(found[i], expected[i]), tolerance) << "gradient " << i - 1;
        }
      }
    }
  }
}

// The kernel stops with an error, after which a process cannot use its GPU any more.
TEST_F(FilledRows, ATargetInTheFillIsNoClass) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto loss_of = [](int64_t target) {
    const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(kGpu);
    const Tensor targets = at::full({4}, target, at::TensorOptions(at::kLong).device(kGpu));
    const Tensor scale = at::full({}, 1.0, at::TensorOptions(at::kFloat).device(kGpu));
    try {
      linear_cross_entropy(at::randn({4, kWidth}, options), at::randn({50257, kWidth}, options), targets, scale, -100,
                           /*label_smoothing=*/0, /*softcap=*/0, Level::cuda)
          .item<double>();
    } catch (const std::exception&) {
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(loss_of(50256), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(loss_of(50257), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace strata::kernels
