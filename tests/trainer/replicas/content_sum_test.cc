// SPDX-License-Identifier: MIT
#include "trainer/replicas/content_sum.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace strata::trainer {
namespace {

TEST(ContentSum, IsTheSameOnAnyNumberOfThreads) {
  std::vector<float> values((int64_t{3} << 20) + 5);
  std::iota(values.begin(), values.end(), -1e6f);
  const auto count = static_cast<int64_t>(values.size());
  const ContentSum one = sum_of_piece(values.data(), count, 17);
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3, 8}) {
    at::set_num_threads(threads);
    EXPECT_EQ(sum_on_all_threads(values.data(), count, 17), one) << threads;
  }
  at::set_num_threads(before);
  EXPECT_EQ(sum_on_all_threads(values.data(), 0, 17), ContentSum());
}

}  // namespace
}  // namespace strata::trainer
