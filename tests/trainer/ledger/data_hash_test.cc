// SPDX-License-Identifier: MIT
// Checks that the hash of a step's data notices every change, and is the same for any number of ranks.
#include "trainer/ledger/data_hash.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "trainer/tasks/graph_batch.h"

namespace strata::trainer {
namespace {

MicroBatch batch(int64_t first_sample, Tensor inputs, Tensor labels) {
  return {GraphBatch{std::move(inputs), std::move(labels)}, first_sample};
}

TEST(DataHash, NoticesContentsShapesTypesAndPlaces) {
  const Tensor inputs = at::arange(24).view({4, 6}), labels = at::arange(4);
  Tensor changed = inputs.clone();
  changed.select(0, 3).select(0, 5).bitwise_xor_(1);
  const std::set<uint64_t> hashes = {
      data_hash({batch(0, inputs, labels)}),
      data_hash({batch(4, inputs, labels)}),
      data_hash({batch(0, changed, labels)}),
      data_hash({batch(0, inputs.view({6, 4}), labels)}),
      data_hash({batch(0, inputs.to(at::kInt), labels)}),
      data_hash({batch(0, labels, inputs)}),
      data_hash({batch(0, inputs, labels), batch(0, inputs, labels)}),
      data_hash({}),
  };
  EXPECT_EQ(hashes.size(), 8u);
  EXPECT_TRUE(hashes.contains(data_hash({batch(0, inputs.clone(), labels.clone())})));
}

TEST(DataHash, TensorsInAnyOrderOfMemory) {
  const Tensor pixels = at::arange(2 * 3 * 5 * 7).view({2, 3, 5, 7}), labels = at::arange(2);
  const Tensor permuted = pixels.permute({0, 3, 1, 2}), part = pixels.slice(3, 0, 4);
  EXPECT_EQ(data_hash({batch(0, permuted, labels)}), data_hash({batch(0, permuted.clone(), labels)}));
  EXPECT_EQ(data_hash({batch(0, part, labels)}), data_hash({batch(0, part.contiguous(), labels)}));
}

TEST(DataHash, SumsOverRanksAreEqualOnAnyNumberOfRanks) {
  std::vector<MicroBatch> all;
  for (int64_t i = 0; i < 6; ++i) all.push_back(batch(3 * i, at::arange(3) + 3 * i, at::arange(3)));
  for (const size_t ranks : {1, 2, 3, 6}) {
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<MicroBatch> own;
      for (size_t i = rank; i < all.size(); i += ranks) own.push_back(all[i]);
      sum += data_hash(own);
    }
    EXPECT_EQ(sum, data_hash(all)) << ranks;
  }
}

TEST(DataHashes, KeepTheLastSteps) {
  const auto step_data = [](int64_t step) {
    return std::vector<MicroBatch>{batch(0, at::arange(4) + step, at::arange(2))};
  };
  DataHashes hashes;
  for (int64_t step = 1; step <= 100; ++step) {
    EXPECT_EQ(hashes.keep(step + 9, step_data(step + 9)).size(), 1u);
    if (step > 9) {
      EXPECT_EQ(hashes.of(step), data_hash(step_data(step)));
    }
  }
  hashes.keep(20, step_data(20));  // a jump back
  EXPECT_EQ(hashes.of(20), data_hash(step_data(20)));
  EXPECT_THROW(hashes.of(21), Error);
}

}  // namespace
}  // namespace strata::trainer
