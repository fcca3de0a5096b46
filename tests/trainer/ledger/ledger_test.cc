// SPDX-License-Identifier: MIT
// Checks that a ledger holds what was written, also after crashes, resumed runs and flipped bits.
#include "trainer/ledger/ledger.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/steady_seconds.h"
#include "tests/trainer/test_files.h"
#include "trainer/ledger/data_hash.h"
#include "trainer/tasks/graph_batch.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kBytesOfStep = 40;

const Facts kFacts = {{"device", "a processor with a name that is longer than a record"}, {kFactRanks, "1"}};

LedgerStep some_step(int64_t step, float loss = 0.25f) {
  return {.step = step,
          .data = 0xfedcba9876543210 + static_cast<uint64_t>(step),
          .loss = loss,
          .gradient_norm = 2,
          .loss_of_rank = 3,
          .squares_of_rank = 4};
}

std::string sha(char digit) { return std::string(64, digit); }

void refuse_warning(const std::string& warning) { ADD_FAILURE() << warning; }

// Writes steps first..last as a run does that was resumed after `resumed`.
void write_steps(const std::string& folder, int64_t resumed, int64_t last, float loss = 0.25f,
                 const Facts& facts = kFacts) {
  LedgerWriter writer({.folder = folder, .resumed_step = resumed, .facts = facts}, refuse_warning);
  for (int64_t step = std::max<int64_t>(resumed, 0) + 1; step <= last; ++step) writer.step(some_step(step, loss));
}

Ledger read(const std::string& folder) { return read_ledgers(folder).at(0); }

double median_microseconds(int times, const std::function<void(int)>& work) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const double begin = steady_seconds();
    work(i);
    all.push_back(1e6 * (steady_seconds() - begin));
  }
  std::nth_element(all.begin(), all.begin() + times / 2, all.end());
  return all[static_cast<size_t>(times / 2)];
}

// A step waits for the record, and on CPUs also for the hash. The batch is that of GPT-2 124M in docs/faults.md.
TEST(Ledger, CostsLittleOfAStep) {
  const TemporaryFolder folder;
  LedgerWriter writer({.folder = folder.path(), .facts = kFacts}, refuse_warning);
  const Tensor tokens = at::arange(64 * 1024).view({64, 1024});
  const std::vector<MicroBatch> batches = {GraphBatch{tokens, tokens + 1}};
  const double record = median_microseconds(1000, [&](int step) { writer.step(some_step(step)); });
  const double hash = median_microseconds(100, [&](int) { data_hash(batches); });
  std::printf("a record of the ledger takes %.1f us, the hash of 65,536 tokens and targets %.1f us\n", record, hash);
  EXPECT_LT(record, 500);
  EXPECT_LT(hash, 10'000);
}

TEST(Ledger, HoldsWhatWasWritten) {
  const TemporaryFolder folder;
  LedgerWriter writer({.folder = folder.path(), .facts = kFacts}, refuse_warning);
  writer.weights(0, sha('a'));
  const uintmax_t begin = fs::file_size(ledger_path(folder.path(), 0));
  writer.step(some_step(1));
  EXPECT_EQ(fs::file_size(ledger_path(folder.path(), 0)), begin + kBytesOfStep);
  writer.step(some_step(2, std::numeric_limits<float>::quiet_NaN()));
  writer.weights(2, sha('7'));
  LedgerStep overflowed = some_step(3);
  overflowed.overflowed = true;
  writer.step(overflowed);
  const Ledger ledger = read(folder.path());
  ASSERT_EQ(ledger.starts.size(), 1u);
  EXPECT_EQ(ledger.starts[0].after, 0);
  EXPECT_EQ(ledger.starts[0].facts, kFacts);
  ASSERT_EQ(ledger.steps.size(), 3u);
  const LedgerStep& first = ledger.steps.at(1);
  EXPECT_FALSE(first.overflowed);
  EXPECT_TRUE(ledger.steps.at(3).overflowed);
  EXPECT_EQ(ledger.steps.at(3).data, overflowed.data);
  EXPECT_EQ(first.data, some_step(1).data);
  EXPECT_EQ(std::pair(first.loss, first.gradient_norm), std::pair(0.25f, 2.0f));
  EXPECT_EQ(std::pair(first.loss_of_rank, first.squares_of_rank), std::pair(3.0f, 4.0f));
  EXPECT_TRUE(std::isnan(ledger.steps.at(2).loss));
  const std::map<int64_t, std::string> weights = {{0, std::string(48, 'a')}, {2, std::string(48, '7')}};
  EXPECT_EQ(ledger.weights, weights);
}

TEST(Ledger, ResumedRunOverwritesLaterSteps) {
  const TemporaryFolder folder;
  write_steps(folder.path(), -1, 8);
  write_steps(folder.path(), 5, 6, 0.5f);
  const Ledger ledger = read(folder.path());
  EXPECT_EQ(ledger.steps.size(), 6u);
  EXPECT_EQ(ledger.steps.at(5).loss, 0.25f);
  EXPECT_EQ(ledger.steps.at(6).loss, 0.5f);
  EXPECT_EQ(ledger.starts.size(), 1u);  // the facts are the same

  Facts others = kFacts;
  others["device"] = "another";
  write_steps(folder.path(), 4, 7, 0.75f, others);
  const Ledger moved = read(folder.path());
  ASSERT_EQ(moved.starts.size(), 2u);
  EXPECT_EQ(moved.starts[1].after, 4);
  EXPECT_EQ(*moved.facts_of(4), kFacts);
  EXPECT_EQ(*moved.facts_of(5), others);
  EXPECT_EQ(moved.facts_of(0), nullptr);
  write_steps(folder.path(), 4, 5);  // back to the first device: the start before is of step 4 too
  EXPECT_EQ(*read(folder.path()).facts_of(5), kFacts);

  write_steps(folder.path(), -1, 2);
  EXPECT_EQ(read(folder.path()).steps.size(), 2u);
}

TEST(Ledger, TornRecordIsCutWhenTheRunIsResumed) {
  const TemporaryFolder folder;
  write_steps(folder.path(), -1, 5);
  const std::string path = ledger_path(folder.path(), 0), whole = read_file(path);
  for (const size_t bytes : {1, 17, 39}) {
    for (const std::string& torn :
         {record_of(some_step(6)).substr(0, bytes), std::string(bytes + kBytesOfStep, '\0')}) {
      std::ofstream(path, std::ios::binary) << whole << torn;
      EXPECT_EQ(read(folder.path()).steps.size(), 5u);
      write_steps(folder.path(), 5, 7);
      EXPECT_EQ(read(folder.path()).steps.size(), 7u);
      EXPECT_EQ(fs::file_size(path), whole.size() + 2 * kBytesOfStep);
    }
  }
}

TEST(Ledger, FlippedBitCostsItsRecordOnly) {
  const TemporaryFolder folder;
  write_steps(folder.path(), -1, 3);
  const std::string path = ledger_path(folder.path(), 0), whole = read_file(path);
  const size_t second = whole.size() - 2 * kBytesOfStep;
  for (size_t bit = 0; bit < 8 * kBytesOfStep; ++bit) {
    std::string flipped = whole;
    flipped[second + bit / 8] = static_cast<char>(flipped[second + bit / 8] ^ (1 << bit % 8));
    const Ledger ledger = parse_ledger(flipped);
    EXPECT_EQ(ledger.steps.size(), 2u) << bit;
    EXPECT_FALSE(ledger.steps.contains(2)) << bit;
    EXPECT_TRUE(ledger.weights.empty()) << bit;
  }
}

TEST(Ledger, IsReadForAllRanksOfAllStarts) {
  const TemporaryFolder folder;
  Facts three = kFacts;
  three[kFactRanks] = "3";
  write_steps(folder.path(), -1, 2, 0.25f, three);
  LedgerWriter({.folder = folder.path(), .rank = 1, .facts = three}, refuse_warning).step(some_step(1));
  const std::vector<Ledger> ledgers = read_ledgers(folder.path());
  ASSERT_EQ(ledgers.size(), 3u);
  EXPECT_EQ(ledgers[1].steps.size(), 1u);
  EXPECT_TRUE(ledgers[2].steps.empty());
  EXPECT_THROW(read_ledgers(folder.path() + "/nowhere"), Error);
}

TEST(Ledger, FailureToWriteIsOneWarning) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/ledger") << "a file where the folder should be";
  std::string warnings;
  LedgerWriter writer({.folder = folder.path(), .facts = kFacts},
                      [&](const std::string& text) { warnings += text + "\n"; });
  for (int64_t step = 1; step < 4; ++step) writer.step(some_step(step));
  EXPECT_NE(warnings.find("/ledger/rank-0: open failed: Not a directory; nothing is written to it"), std::string::npos)
      << warnings;
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1);
}

}  // namespace
}  // namespace strata::trainer
