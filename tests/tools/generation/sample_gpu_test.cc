// SPDX-License-Identifier: MIT
// Checks the kernel that finds the likeliest tokens against the loops of the CPU.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tools/generation/sample.h"

namespace strata::generation {
namespace {

constexpr Sampling kGreedy = {.temperature = 0};

void expect_those_of_the_cpu(const Tensor& logits, const std::string& name) {
  ASSERT_TRUE(at::equal(sample(logits, kGreedy, 0).cpu(), sample(logits.cpu(), kGreedy, 0))) << name;
}

TEST(SampleOnGpu, LikeliestTokensAreThoseOfTheCpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  at::manual_seed(4);
  const at::TensorOptions gpu = at::device(at::kCUDA);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    // Rows of fewer logits than threads, at 16-byte boundaries and not, and of more than one round of loads.
    for (const int64_t width : {1, 7, 8, 1000, 32768, 50257, 128256}) {
      for (const int64_t rows : {1, 3}) {
        const std::string name =
            std::string(at::toString(type)) + " [" + std::to_string(rows) + ", " + std::to_string(width) + "]";
        expect_those_of_the_cpu(at::randn({rows, width}, gpu).to(type), name);
        expect_those_of_the_cpu(at::randint(-3, 4, {rows, width}, gpu.dtype(type)), name + " with equal logits");
        expect_those_of_the_cpu(at::randint(-3, 0, {rows, width}, gpu.dtype(type)), name + " below zero");
        expect_those_of_the_cpu(at::randn({rows, width + 1}, gpu).to(type).narrow(1, 1, width), name + ", a view");
      }
    }
  }
}

TEST(SampleOnGpu, LogitsThatAreNotFiniteGiveNoToken) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t place : {0, 3000, 50000, 50256}) {
      const Tensor plain = at::randn({50257}).to(type);
      const auto with = [&](float value) {
        Tensor logits = plain.clone();
        logits[place] = value;
        return logits;
      };
      Tensor negative_nan = plain.clone();
      negative_nan[place].fill_(kNan).neg_();
      const Tensor logits = at::stack({with(kNan), with(kInfinity), with(-kInfinity), with(100), negative_nan,
                                       at::full({50257}, -kInfinity, at::dtype(type))});
      const Tensor ids = sample(logits.to(at::kCUDA), kGreedy, 0).cpu();
      ASSERT_TRUE(at::equal(ids, sample(logits, kGreedy, 0))) << at::toString(type) << ", " << place << ": " << ids;
      EXPECT_EQ(ids[0].item<int64_t>(), kNoToken);
      EXPECT_EQ(ids[3].item<int64_t>(), place);
    }
  }
}

// Zeros of both signs are equal.
TEST(SampleOnGpu, OfZerosTheFirstIsTheLikeliest) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  Tensor logits = at::full({1, 20000}, -1.0F);
  logits[0][7000] = -0.0F, logits[0][7001] = 0.0F;
  EXPECT_EQ(sample(logits.to(at::kCUDA), kGreedy, 0).item<int64_t>(), 7000);
}

}  // namespace
}  // namespace strata::generation
