// SPDX-License-Identifier: MIT
// Checks that slots are handed out in the same order in every step, wait for their last use, and are poisoned when
// released.
#include "sharding/parameters/slot_pool.h"

#include <ATen/ops/isnan.h>
#include <gtest/gtest.h>

namespace strata::sharding {
namespace {

TEST(SlotPool, HandsOutTheLowestFreeSlot) {
  SlotPool pool(3, 8, at::kFloat);
  EXPECT_EQ(pool.bytes(), 3 * 8 * 4);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  pool.release(0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_THROW(pool.take(), c10::Error);
}

TEST(SlotPool, FinishesTheOldestLeaverWhenNothingIsFree) {
  SlotPool pool(2, 8, at::kFloat);
  std::vector<int> finished;
  for (int i = 0; i < 2; ++i) pool.release_after(pool.take(), [&finished, i] { finished.push_back(i); });
  EXPECT_TRUE(finished.empty());
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(finished, std::vector<int>({0}));
  pool.finish_all();
  EXPECT_EQ(finished, std::vector<int>({0, 1}));
}

TEST(SlotPool, PoisonsWhatIsReleased) {
  SlotPool pool(1, 8, at::kFloat, /*poison=*/true);
  const int64_t slot = pool.take();
  pool.buffer(slot).fill_(1);
  pool.release(slot);
  EXPECT_TRUE(at::isnan(pool.buffer(slot)).all().item<bool>());
}

}  // namespace
}  // namespace strata::sharding
