// SPDX-License-Identifier: MIT
// 1,000 random expressions at all levels of a GPU. Every second part has as many blocks as for two multiprocessors, so
// that each block of a persistent kernel has many tiles.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/runtime/product_sums.h"
#include "tests/kernels/attention/prove_levels.h"

namespace strata::kernels {
namespace {

class RandomAttentionOnGpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_multiprocessors(GetParam() % 2 == 0 ? 0 : 2); }
  void TearDown() override { set_multiprocessors(0); }
};

TEST_P(RandomAttentionOnGpu, IsThatOfLoopsOverPairs) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  accumulate_products_in_fp32();
  prove_levels(c10::kCUDA, GetParam(), /*most_positions=*/300);
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomAttentionOnGpu, testing::Range(0, kParts));

}  // namespace
}  // namespace strata::kernels
