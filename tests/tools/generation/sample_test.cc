// SPDX-License-Identifier: MIT
#include "tools/generation/sample.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "base/draws.h"
#include "base/permutation.h"

namespace strata::generation {
namespace {

// The definition, with loops.
int64_t plain_sample(const Tensor& logits, const Sampling& sampling, int64_t number) {
  const auto value = [&](int64_t id) { return static_cast<double>(logits[id].item<float>()); };
  std::vector<int64_t> ids(static_cast<size_t>(logits.size(0)));
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return value(a) > value(b); });
  if (sampling.temperature == 0) return ids[0];
  if (sampling.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(sampling.top_k)));
  std::vector<double> shares;
  for (const int64_t id : ids) shares.push_back(std::exp((value(id) - value(ids[0])) / sampling.temperature));
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  size_t kept = 0;
  double sum = 0;
  while (kept < shares.size() && sum / all < sampling.top_p) sum += shares[kept++];
  const double draw = Draws(mix(sampling.seed, static_cast<uint64_t>(number))).uniform() * sum;
  double passed = 0;
  for (size_t i = 0; i + 1 < kept; ++i) {
    passed += shares[i];
    if (passed > draw) return ids[i];
  }
  return ids[kept - 1];
}

TEST(Sample, EqualsTheDefinition) {
  at::manual_seed(3);
  const Tensor logits = at::randn({4, 50}).mul_(3);
  for (const double temperature : {0.0, 1e-6, 0.5, 1.0, 4.0, 1e6}) {
    for (const int64_t top_k : {0, 1, 7, 50, 1000}) {
      for (const double top_p : {1e-9, 0.3, 0.9, 1.0}) {
        for (uint64_t seed = 0; seed < 6; ++seed) {
          const Sampling sampling = {temperature, top_k, top_p, seed};
          const double draw = Draws(mix(seed, /*number*/ 5)).uniform();
          // By loops on the CPU, and by the operators of GPUs.
          for (const Tensor& ids : {sample(logits, sampling, 5), sample_by_operators(logits, sampling, draw)}) {
            for (int64_t row = 0; row < 4; ++row) {
              ASSERT_EQ(ids[row].item<int64_t>(), plain_sample(logits[row], sampling, 5))
                  << temperature << " " << top_k << " " << top_p << " " << seed;
            }
          }
        }
      }
    }
  }
}

TEST(Sample, TypesAndViewsAreSampled) {
  const Tensor logits = at::randperm(120).view({2, 60}).mul(0.0625).to(at::kBFloat16);  // all differ
  const Tensor every_other = logits.as_strided({2, 30}, {60, 2});
  for (int64_t number = 0; number < 20; ++number) {
    const double draw = Draws(mix(Sampling().seed, static_cast<uint64_t>(number))).uniform();
    EXPECT_TRUE(
        at::equal(sample(every_other, {.top_k = 4}, number), sample_by_operators(every_other, {.top_k = 4}, draw)));
  }
}

TEST(Sample, OfEqualLogitsTheFirstIsTheLikeliest) {
  const Tensor logits = at::tensor({1.0F, 3.0F, 3.0F, 3.0F, 2.0F}).view({1, 5});
  EXPECT_EQ(sample(logits, {.temperature = 0}, 0).item<int64_t>(), 1);
  EXPECT_EQ(sample(logits, {.temperature = 1, .top_k = 1}, 0).item<int64_t>(), 1);
}

TEST(Sample, TokensComeAsOftenAsTheirProbabilities) {
  const Tensor logits = at::randn({1, 5});
  const Tensor shares = logits.softmax(1);
  std::map<int64_t, double> counts;
  constexpr int64_t kDraws = 4000;
  for (int64_t number = 0; number < kDraws; ++number) {
    ++counts[sample(logits, {.temperature = 1, .top_k = 0, .seed = 9}, number).item<int64_t>()];
  }
  for (int64_t id = 0; id < 5; ++id) {
    EXPECT_NEAR(counts[id] / kDraws, shares[0][id].item<double>(), 0.04) << id;
  }
}

TEST(Sample, LogitsThatAreNotFiniteGiveNoToken) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const Tensor logits = at::tensor({1.0F, kNan, 0.0F, 0.0F, 0.0F, 5.0F, kInfinity, 1.0F, 1.0F, -kInfinity, -kInfinity,
                                    5.0F, -kInfinity, -kInfinity, -kInfinity})
                            .view({5, 3});
  for (const double temperature : {0.0, 1e-6}) {
    for (const int64_t top_k : {0, 1}) {
      const Sampling sampling = {.temperature = temperature, .top_k = top_k};
      for (const Tensor& ids : {sample(logits, sampling, 0), sample_by_operators(logits, sampling, 0.5)}) {
        EXPECT_TRUE(at::equal(ids, at::tensor({kNoToken, int64_t{2}, kNoToken, int64_t{2}, kNoToken}, at::kLong)))
            << ids;
      }
    }
  }
}

TEST(Sample, ARowIsTheSameInAnyBatch) {
  const Tensor logits = at::randn({3, 40});
  for (int64_t number = 0; number < 50; ++number) {
    const Tensor ids = sample(logits, {}, number);
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_TRUE(at::equal(ids.narrow(0, row, 1), sample(logits.narrow(0, row, 1), {}, number)));
    }
  }
}

}  // namespace
}  // namespace strata::generation
