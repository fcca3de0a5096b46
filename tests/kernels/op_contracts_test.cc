// SPDX-License-Identifier: MIT
// Checks the contracts of single ops apart from their numbers: masks that do not depend on ranks, gradients that are
// not overwritten while others hold them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/linear_cross_entropy/head_in_chunks.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rotary/rotary.h"

namespace strata::kernels {
namespace {

class Contracts : public testing::TestWithParam<Level> {};

INSTANTIATE_TEST_SUITE_P(Levels, Contracts, testing::Values(Level::aten, Level::torchscript),
                         [](const auto& info) { return std::string(name(info.param)); });

Tensor key(int64_t value) { return at::full({1}, value, at::kLong); }

TEST_P(Contracts, DropoutDoesNotDependOnHowRowsAreSplit) {
  const Tensor x = at::ones({6, 4, 50});
  const Tensor whole = dropout(x, 0.5, key(7), 3, 1000, GetParam());
  const Tensor head = dropout(x.narrow(0, 0, 2), 0.5, key(7), 3, 1000, GetParam());
  const Tensor tail = dropout(x.narrow(0, 2, 4), 0.5, key(7), 3, 1000 + 2 * 4, GetParam());
  EXPECT_TRUE(at::equal(whole, at::cat({head, tail})));
}

TEST_P(Contracts, DropoutKeepsTheRightShareIndependentlyInEveryDirection) {
  const int64_t rows = 512, columns = 512;
  const Tensor x = at::ones({rows, columns});
  const auto kept = [&](double probability, int64_t k, int64_t site, int64_t row) {
    return dropout(x, probability, key(k), site, row, GetParam()).ne(0).to(at::kDouble);
  };
  const double count = static_cast<double>(rows * columns);
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const double deviation = std::sqrt(probability * (1 - probability) / count);
    EXPECT_NEAR(kept(probability, 1, 2, 3).mean().item<double>(), 1 - probability, 5 * deviation + 1e-12);
  }
  // Masks of another key, site or row range, and neighbors in the same mask, agree with probability 1/2, as by chance.
  const Tensor mask = kept(0.5, 1, 2, 3);
  const double bound = 5 * 0.5 / std::sqrt(count);
  const auto agreement = [](const Tensor& a, const Tensor& b) { return a.eq(b).to(at::kDouble).mean().item<double>(); };
  EXPECT_NEAR(agreement(mask, kept(0.5, 2, 2, 3)), 0.5, bound);
  EXPECT_NEAR(agreement(mask, kept(0.5, 1, 3, 3)), 0.5, bound);
  EXPECT_NEAR(agreement(mask, kept(0.5, 2, 1, 3)), 0.5, bound);  // key and site exchanged
  EXPECT_NEAR(agreement(mask, kept(0.5, 1, 2, 3 + (int64_t{1} << 32))), 0.5, bound);
  EXPECT_NEAR(agreement(mask.narrow(0, 1, rows - 1), mask.narrow(0, 0, rows - 1)), 0.5, bound);
  EXPECT_NEAR(agreement(mask.narrow(1, 1, columns - 1), mask.narrow(1, 0, columns - 1)), 0.5, bound);
}

// Rotary rotates gradients back in place only if nothing else holds them.
TEST_P(Contracts, RotaryLeavesAGradientAloneThatOthersSee) {
  const Tensor angle = at::randn({5, 2}), qkv = at::randn({2, 5, 3 * 4}).requires_grad_();
  const Tensor gradient = at::randn({2, 5, 3 * 4}), before = gradient.clone();
  const Tensor y = rotary(qkv * 1.0, at::cos(angle), at::sin(angle), 1, 1, GetParam());
  torch::autograd::backward({y}, {gradient});
  EXPECT_TRUE(at::equal(gradient, before));
  // A rotation is inverted by the opposite one, so both together are the identity.
  const Tensor again = rotary(qkv.grad().clone(), at::cos(angle), at::sin(angle), 1, 1, GetParam());
  EXPECT_LT((again - gradient).abs().max().item<double>(), 1e-5);
}

TEST_P(Contracts, RmsNormRotaryLeavesAGradientAloneThatOthersSee) {
  const Tensor angle = at::randn({5, 2}), qkv = at::randn({2, 5, 3 * 4}).requires_grad_();
  const HeadNorms norms = {at::randn({4}), at::randn({4})};
  const auto gradient_of = [&](const Tensor& y, const Tensor& gradient) {
    qkv.mutable_grad().reset();
    torch::autograd::backward({y}, {gradient}, /*retain_graph=*/true);
    return qkv.grad().clone();
  };
  const Tensor gradient = at::randn({2, 5, 3 * 4}), before = gradient.clone();
  const Tensor y = rms_norm_rotary(qkv * 1.0, norms, at::cos(angle), at::sin(angle), 1, 1, 1e-5, GetParam());
  const Tensor once = gradient_of(y, gradient);
  EXPECT_TRUE(at::equal(gradient, before));
  // The same graph gives the same gradient again, so the first backward left the saved qkv alone too.
  EXPECT_LT((gradient_of(y, gradient) - once).abs().max().item<double>(), 1e-5);
}

TEST(Rotary, TurnsAGradientOfItsOwnInPlace) {
  for (const bool through_view : {false, true}) {  // the backward of view() gives a view of the gradient
    const Tensor angle = at::randn({5, 2}), qkv = at::randn({2, 5, 3 * 4}).requires_grad_(), copied = qkv * 1.0;
    const void* arriving = nullptr;
    const void* leaving = nullptr;
    copied.register_hook([&](const Tensor& gradient) { leaving = gradient.const_data_ptr(); });
    const Tensor y = rotary(copied, at::cos(angle), at::sin(angle), 1, 1, Level::aten);
    y.register_hook([&](const Tensor& gradient) { arriving = gradient.const_data_ptr(); });
    const Tensor seen = through_view ? y.view({10, 12}) : y;
    (seen * at::randn(seen.sizes())).sum().backward();
    EXPECT_NE(arriving, nullptr);
    EXPECT_EQ(arriving, leaving);
  }
}

// The holder of a view's base sees what is written into the view.
TEST(Rotary, LeavesAGradientAloneWhoseBaseOthersHold) {
  const Tensor angle = at::randn({5, 2}), qkv = at::randn({2, 5, 3 * 4}).requires_grad_();
  const Tensor y = rotary(qkv * 1.0, at::cos(angle), at::sin(angle), 1, 1, Level::aten), seen = y.view({10, 12});
  const Tensor gradient = at::randn({10, 12}), before = gradient.clone();
  torch::autograd::backward({seen}, {gradient});
  EXPECT_TRUE(at::equal(gradient, before));
}

TEST_P(Contracts, CrossEntropyCanBeDifferentiatedTwiceInARowAndByAnyFactor) {
  const Tensor logits = at::randn({4, 7}).requires_grad_(), targets = at::full({4}, 3, at::kLong);
  const Tensor loss = cross_entropy(logits, targets, at::full({}, 0.25), -100, 0.0, GetParam());
  loss.backward({}, /*retain_graph=*/true);
  const Tensor once = logits.grad().clone();
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(at::equal(logits.grad(), once + once));
  logits.mutable_grad().reset();
  (loss * 3).backward();
  EXPECT_LT((logits.grad() - once * 3).abs().max().item<double>(), 1e-6);
}

TEST(CrossEntropy, ScalesAGradientOfItsOwnInPlace) {
  // More elements than a package scales at a time.
  constexpr int64_t kRows = 130, kClasses = 140'001;
  for (const Level level : {Level::aten, Level::aot_inductor}) {
    SCOPED_TRACE(name(level));
    const auto& kernel = CrossEntropyOp::kKernels.slot(level);
    const Tensor gradient = at::randn({kRows, kClasses}), before = gradient.clone();
    for (const double factor : {1.0, 2.0}) {
      const Tensor scaled = kernel.backward(at::full({}, factor), gradient, /*in_place=*/true);
      EXPECT_EQ(scaled.const_data_ptr(), gradient.const_data_ptr());
      EXPECT_TRUE(at::equal(scaled, before * factor));
    }
  }
}

TEST_P(Contracts, LinearCrossEntropyCanBeDifferentiatedByAnyFactor) {
  const Tensor hidden = at::randn({4, 6}).requires_grad_(), weight = at::randn({7, 6}).requires_grad_();
  const Tensor loss = linear_cross_entropy(hidden, weight, at::full({4}, 3, at::kLong), at::full({}, 0.25), -100, 0.0,
                                           /*softcap=*/2.0, GetParam());
  loss.backward({}, /*retain_graph=*/true);
  const Tensor hidden_gradient = hidden.grad().clone(), weight_gradient = weight.grad().clone();
  (loss * 2).backward();
  EXPECT_TRUE(at::equal(hidden.grad(), hidden_gradient * 3));
  EXPECT_LT((weight.grad() - weight_gradient * 3).abs().max().item<double>(), 1e-6);
}

// Chunks of one row, of a few rows with a rest, and of all rows give the same loss and the same gradients.
TEST(HeadInChunks, DoesNotDependOnTheChunks) {
  const Tensor hidden = at::randn({7, 5}, at::kDouble), weight = at::randn({11, 5}, at::kDouble);
  const Tensor targets = at::randint(0, 11, {7}, at::kLong), scale = at::full({}, 0.5, at::kFloat);
  targets[2].fill_(-100);
  const HeadProducts products = {
      [](const Tensor& logits, const Tensor& rows, const Tensor& weight) { logits.copy_(rows.matmul(weight.t())); },
      [](const Tensor& hidden, const Tensor& gradient, const Tensor& weight) { hidden.copy_(gradient.matmul(weight)); },
      [](const Tensor& sum, const Tensor& gradient, const Tensor& rows, bool add) {
        sum.copy_(add ? sum + gradient.t().matmul(rows) : gradient.t().matmul(rows));
      }};
  const auto run = [&](int64_t rows_at_a_time) {
    return head_in_chunks(hidden, weight, targets, scale, {-100, 0.1}, /*with_gradient=*/true, products,
                          CrossEntropyOp::kKernels.aten.forward, rows_at_a_time);
  };
  const auto whole = run(7);
  for (const int64_t rows_at_a_time : {1, 3, 1000}) {
    const auto parts = run(rows_at_a_time);
    EXPECT_LT((parts.loss - whole.loss).abs().item<double>(), 1e-12);
    EXPECT_LT((parts.hidden_gradient - whole.hidden_gradient).abs().max().item<double>(), 1e-12);
    EXPECT_LT((parts.weight_gradient - whole.weight_gradient).abs().max().item<double>(), 1e-12);
  }
}

// The profiler reads these scopes.
TEST(CallScopes, NameOpAndLevelForwardAndBackward) {
  static std::vector<std::string> names;
  names.clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        names.emplace_back(function.name());
        return nullptr;
      }).scopes({at::RecordScope::USER_SCOPE}));
  const Tensor x = at::randn({2, 4}).requires_grad_(), weight = at::ones({4});
  rms_norm(x, weight, 1e-5, Level::aten).sum().backward();
  rms_norm(x, weight, 1e-5, Level::torchscript);
  at::removeCallback(handle);
  EXPECT_EQ(names, (std::vector<std::string>{"rms_norm/aten", "rms_norm/aten/backward", "rms_norm/torchscript"}));
}

}  // namespace
}  // namespace strata::kernels
