// SPDX-License-Identifier: MIT
// What goes into a step and what comes out of it, on the device of the test: batches of any step in any order, results
// of every step in theirs; and what a step may not do meanwhile.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "configs/errors.h"
#include "tests/sharding/mpi_main.h"
#include "trainer/batch_feed.h"
#include "trainer/step_results.h"
#include "trainer/strict_step.h"

namespace strata::trainer {
namespace {

using at::Tensor;

Tensor numbers(int64_t step, int64_t batch) { return at::full({3, 5}, 100 * step + batch, at::kLong); }

std::vector<MicroBatch> read(int64_t step) {
  if (step == 13) throw Error(ExitCode::data, "token 13 is damaged");
  std::vector<MicroBatch> batches;
  for (int64_t i = 0; i < 2; ++i) batches.push_back({numbers(step, i), numbers(step, i + 50), 3 * i});
  return batches;
}

TEST(BatchFeed, GivesTheBatchesOfEachStepAlsoAfterAJump) {
  BatchFeed feed(read, tests::device());
  std::vector<const void*> places;
  for (const int64_t step : {1, 2, 3, 4, 5, 9, 10, 2, 3}) {
    const auto& batches = feed.next(step);
    ASSERT_EQ(batches.size(), 2u);
    for (int64_t i = 0; i < 2; ++i) {
      const MicroBatch& batch = batches[static_cast<size_t>(i)];
      EXPECT_TRUE(at::equal(batch.inputs.cpu(), numbers(step, i))) << step;
      EXPECT_TRUE(at::equal(batch.targets.cpu(), numbers(step, i + 50))) << step;
      EXPECT_EQ(batch.first_sample, 3 * i);
      EXPECT_EQ(batch.inputs.device(), tests::device());
    }
    places.push_back(batches[0].inputs.const_data_ptr());
    if (tests::device().is_cuda()) {
      EXPECT_EQ(places.back(), places.front());  // a captured step reads them there
    }
  }
}

TEST(BatchFeed, ThrowsWhatCannotBeReadAtTheStepItBelongsTo) {
  BatchFeed feed(read, tests::device());
  EXPECT_NO_THROW(feed.next(11));
  EXPECT_NO_THROW(feed.next(12));
  EXPECT_THROW(feed.next(13), Error);
}

TEST(StepResults, GiveEveryStepOnceAndInOrder) {
  StepResults results(tests::device());
  const int64_t late = tests::device().is_cuda() ? 1 : 0;
  int64_t seen = 0;
  for (int64_t step = 1; step <= 7; ++step) {
    results.values().fill_(0.5 * static_cast<double>(step));
    results.push(step);
    while (const auto result = results.next(/*all=*/step == 4)) {
      EXPECT_EQ(result->step, ++seen);
      EXPECT_EQ(result->loss, 0.5f * static_cast<float>(seen));
      EXPECT_EQ(result->skipped, result->loss);
    }
    EXPECT_EQ(seen, step == 4 ? 4 : step - late);
  }
}

TEST(StrictStep, RefusesWaitsAndNewMemoryOfGpus) {
  const at::Device device = tests::device();
  const auto options = at::dtype(at::kByte).device(device);
  const Tensor one = at::full({}, 1, options);
  const auto new_memory = [&] { return at::empty({int64_t{1} << 27}, options); };  // more than is there, freed
  setenv("STRATA_STRICT_STEPS", "1", /*overwrite=*/1);
  if (device.is_cuda()) {
    const StrictStep strict(device, /*may_wait=*/false, /*may_allocate=*/false);
    EXPECT_THROW(one.item<uint8_t>(), c10::Error);
    EXPECT_NO_THROW(strict.check_allocations());
    const Tensor more = new_memory();
    EXPECT_THROW(strict.check_allocations(), Error);
  }
  const auto may = [&](bool wait, bool allocate) {
    const StrictStep strict(device, wait, allocate);
    if (wait) {
      EXPECT_EQ(one.item<uint8_t>(), 1);
    }
    const Tensor more = new_memory(), still_more = new_memory(), even_more = new_memory();
    EXPECT_NO_THROW(strict.check_allocations());
  };
  may(true, true);
  may(false, true);
  unsetenv("STRATA_STRICT_STEPS");
  const StrictStep strict(device, /*may_wait=*/false, /*may_allocate=*/false);
  EXPECT_EQ(one.item<uint8_t>(), 1);
  const Tensor more = new_memory();
  EXPECT_NO_THROW(strict.check_allocations());
}

}  // namespace
}  // namespace strata::trainer
