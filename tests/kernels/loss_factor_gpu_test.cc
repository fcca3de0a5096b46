// SPDX-License-Identifier: MIT
// The backward of cross_entropy by any factor. While the graph is kept it writes a new tensor, and at the last time it
// scales the saved gradient in place. A factor of 1 then leaves it as it is.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "kernels/cross_entropy/cross_entropy.h"

namespace strata::kernels {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class LossFactor : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

struct Loss {
  Tensor leaf, value;

  Tensor gradient(double factor, bool keep_graph) const {
    return torch::autograd::grad({value}, {leaf}, {at::full({}, factor, value.options().requires_grad(false))},
                                 keep_graph)[0];
  }
};

// Rows of 33 classes are no whole vectors. 5 x 40001 and 5 x 50304 elements end in a part of a vector or do not.
TEST_P(LossFactor, GivesTheSameInPlace) {
  for (const int64_t classes : {33, 1000, 40001, 50304}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      // Rows of whole vectors need a package of their own at level aot_inductor; the build has one for 50304 in bf16.
      const bool whole = classes % 8 == 0, built = classes == 50304 && dtype == at::kBFloat16;
      if (GetParam() == Level::aot_inductor && whole && !built) continue;
      SCOPED_TRACE(std::to_string(classes) + (dtype == at::kFloat ? " fp32" : " bf16"));
      const at::TensorOptions options = at::TensorOptions(dtype).device(at::kCUDA);
      const Tensor logits = at::randn({5, classes}, options);
      const Tensor targets = at::randint(classes, {5}, options.dtype(at::kLong));
      const Tensor scale = at::full({}, 0.25, options.dtype(at::kFloat));
      const auto loss = [&] {
        const Tensor leaf = logits.clone().requires_grad_();  // the logits may be overwritten
        return Loss{leaf, cross_entropy(leaf, targets, scale, -100, /*label_smoothing=*/0, GetParam())};
      };
      const Loss kept = loss();
      const Tensor once = kept.gradient(1.0, true), thrice = kept.gradient(3.0, true);
      EXPECT_GT(once.abs().max().item<double>(), 0.0);
      EXPECT_TRUE(at::equal(kept.gradient(1.0, true), once));
      EXPECT_TRUE(at::equal(kept.gradient(1.0, false), once));
      EXPECT_TRUE(at::equal(loss().gradient(3.0, false), thrice));
      EXPECT_LT((thrice.to(at::kFloat) - once.to(at::kFloat) * 3).abs().max().item<double>(), 0.01);
    }
  }
}

TEST(LossFactorMemory, TakesNoSecondTensor) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  for (const Level level : {Level::aten, Level::aot_inductor, Level::triton, Level::cuda}) {
    SCOPED_TRACE(name(level));
    constexpr int64_t kRows = 512, kClasses = 50304;
    const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
    const Tensor leaf = at::randn({kRows, kClasses}, options).requires_grad_();
    const Tensor value = cross_entropy(leaf, at::full({kRows}, 7, options.dtype(at::kLong)),
                                       at::full({}, 1.0, options.dtype(at::kFloat)), -100, 0, level);
    const auto bytes = [] {
      return allocator::getDeviceStats(0)
          .allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    };
    const int64_t before = bytes().current;
    allocator::resetPeakStats(0);
    const Tensor gradient = Loss{leaf, value}.gradient(1.0, /*keep_graph=*/false);
    EXPECT_LT(bytes().peak, before + kRows * kClasses * 2);
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LossFactor,
                         testing::Values(Level::aten, Level::aot_inductor, Level::triton, Level::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace strata::kernels
