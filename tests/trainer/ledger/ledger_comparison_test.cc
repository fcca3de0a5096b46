// SPDX-License-Identifier: MIT
// Checks that a comparison of ledgers names the first difference: its step, field and rank.
#include "trainer/ledger/ledger_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/errors.h"

namespace strata::trainer {
namespace {

constexpr int64_t kAfter = 5, kLast = 8;

// The ledgers of a run of `ranks` ranks that began after step `after`: at step 0, or for a replay at step 5.
std::vector<Ledger> ledgers(int ranks, int64_t after = kAfter, const Facts& more = {}) {
  Facts facts = {{kFactRanks, std::to_string(ranks)},
                 {kFactMicroBatch, "8"},
                 {kFactRepeats, "yes"},
                 {kFactSamples, "split"},
                 {"device", "a CPU"}};
  for (const auto& [name, value] : more) facts[name] = value;
  std::vector<Ledger> all(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Ledger& ledger = all[static_cast<size_t>(rank)];
    ledger.starts = {{after, facts}};
    for (int64_t step = after + 1; step <= kLast; ++step) {
      const auto number = static_cast<float>(step);
      // The sum of the data over ranks is 1200 per step on 1, 2 and 3 ranks.
      ledger.steps[step] = {step,          static_cast<uint64_t>(1200 / ranks), 1 / number, number, 1 / number / ranks,
                            number / ranks};
    }
    ledger.weights = {{after, "aa"}, {kLast, "bb"}};
  }
  return all;
}

Comparison compared(const std::vector<Ledger>& recorded, const std::vector<Ledger>& replayed) {
  return compare(recorded, replayed, {.after = kAfter, .last = kLast, .rounding = 1e-5});
}

#define EXPECT_VERDICT(comparison, wanted, part)                       \
  do {                                                                 \
    const Comparison found = comparison;                               \
    EXPECT_EQ(found.verdict, Verdict::wanted) << found.text;           \
    EXPECT_NE(found.text.find(part), std::string::npos) << found.text; \
  } while (false)

TEST(LedgerComparison, EqualLedgers) {
  const std::vector<Ledger> recorded = ledgers(2, 0);
  EXPECT_VERDICT(compared(recorded, ledgers(2)), equal,
                 "equal: data, loss and gradient norm of steps 6 to 8, and the weights after step 8, bit for bit");
  std::vector<Ledger> without = ledgers(2);
  for (Ledger& ledger : without) ledger.weights.clear();
  EXPECT_VERDICT(compared(recorded, without), equal, "loss and gradient norm of steps 6 to 8, bit for bit");
}

TEST(LedgerComparison, NamesStepFieldAndRank) {
  const std::vector<Ledger> recorded = ledgers(3);
  std::vector<Ledger> replayed = recorded;
  replayed[1].weights[kLast] = "cc";
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ, "different: step 8, weights, rank 1: ");
  replayed[2].steps[8].squares_of_rank = std::nextafter(replayed[2].steps[8].squares_of_rank, 0.f);
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ,
                 "different: step 8, gradient norm, rank 2; the part of rank 2 was ");
  replayed[0].steps[8].loss_of_rank = -replayed[0].steps[8].loss_of_rank;
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ,
                 "different: step 8, loss, rank 0; the part of rank 0 was ");
  for (Ledger& ledger : replayed) ledger.steps[7].loss = 0.2f;
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ,
                 "different: step 7, loss, ranks 0, 1, 2 was 0.142857149 (3e124925) and is 0.200000003 (3e4ccccd)");
  replayed[1].steps[7].data ^= 1;
  EXPECT_VERDICT(compared(recorded, replayed), data_differ, "different: step 7, data, rank 1: the samples of the step");
}

TEST(LedgerComparison, StepsBeforeTheReplayDoNotCount) {
  std::vector<Ledger> recorded = ledgers(1, 0);
  recorded[0].steps[5].loss = 100;
  EXPECT_VERDICT(compared(recorded, ledgers(1)), equal, "steps 6 to 8");
}

TEST(LedgerComparison, OtherRanksAgreeWithinRounding) {
  const std::vector<Ledger> recorded = ledgers(2);
  std::vector<Ledger> replayed = ledgers(3);
  EXPECT_VERDICT(compared(recorded, replayed), within_rounding,
                 "no bit of them differs; not compared bit for bit, because ranks was 2 and is 3");
  replayed[0].steps[7].loss *= 1 + 1.9e-5f;
  EXPECT_VERDICT(compared(recorded, replayed), within_rounding,
                 "the largest relative difference is 1.9e-05, the loss of step 7");
  replayed[0].steps[6].loss *= 1 + 1.9e-5f;  // the first step may differ by half of that
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ, "different: step 6, loss: was ");
  replayed = ledgers(3);
  replayed[2].steps[6].data += 1;
  EXPECT_VERDICT(compared(recorded, replayed), data_differ, "different: step 6, data, of all ranks together");
}

TEST(LedgerComparison, DataThatAreSplitOtherwiseAreNotCompared) {
  std::vector<Ledger> replayed = ledgers(2, kAfter, {{kFactMicroBatch, "4"}});
  for (Ledger& ledger : replayed) ledger.steps[6].data = 1;
  EXPECT_VERDICT(compared(ledgers(2), replayed), within_rounding, "the data are not compared");
  std::vector<Ledger> shared = ledgers(1, kAfter, {{kFactSamples, "shared"}});
  shared[0].steps[6].data = 1;
  EXPECT_VERDICT(compared(ledgers(2, 0, {{kFactSamples, "shared"}}), shared), within_rounding,
                 "the data are not compared");
}

TEST(LedgerComparison, OtherFilesOfDataAreOtherData) {
  const Facts one = {{kFactData, "1a"}}, other = {{kFactData, "2b"}};
  EXPECT_VERDICT(compared(ledgers(2, 0, one), ledgers(2, kAfter, one)), equal, "bit for bit");
  EXPECT_VERDICT(compared(ledgers(2, 0, one), ledgers(1, kAfter, other)), data_differ, "step 6, data, of all ranks: ");
}

TEST(LedgerComparison, BitsCountOnTheSameKindOfDeviceOnly) {
  std::vector<Ledger> replayed = ledgers(2, kAfter, {{"device", "another CPU"}});
  replayed[1].steps[6].loss_of_rank *= 1.5f;
  EXPECT_VERDICT(compared(ledgers(2), replayed), within_rounding, "because device was a CPU and is another CPU");
  replayed[1].steps[6].data ^= 1;
  EXPECT_VERDICT(compared(ledgers(2), replayed), data_differ, "step 6, data, rank 1");
  const Facts no = {{kFactRepeats, "no"}};
  EXPECT_VERDICT(compared(ledgers(2, 0, no), ledgers(2, kAfter, no)), within_rounding,
                 "run.deterministic is off on a GPU");
}

TEST(LedgerComparison, ARunMayHaveMovedInBetween) {
  std::vector<Ledger> recorded = ledgers(2, 0);
  Facts moved = recorded[0].starts[0].facts;
  moved[kFactRanks] = "1";
  recorded[0].starts.push_back({6, moved});
  recorded[0].steps[7].data = recorded[0].steps[8].data = 1200;
  EXPECT_VERDICT(compared(recorded, ledgers(2)), within_rounding, "because ranks was 1 and is 2");
}

TEST(LedgerComparison, NotFiniteNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Ledger> recorded = ledgers(1), replayed = ledgers(1, kAfter, {{"device", "another CPU"}});
  recorded[0].steps[8].loss = kNan;
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ, "step 8, loss: was nan");
  replayed[0].steps[8].loss = -kNan;
  EXPECT_VERDICT(compared(recorded, replayed), within_rounding, "equal within rounding");
  recorded[0].steps[7].gradient_norm = std::numeric_limits<float>::infinity();
  EXPECT_VERDICT(compared(recorded, replayed), numbers_differ, "step 7, gradient norm: was inf");
  replayed[0].steps[7].gradient_norm = kNan;
  EXPECT_VERDICT(compared(recorded, replayed), within_rounding, "equal within rounding");
}

TEST(LedgerComparison, MissingRecordsAreAnError) {
  std::vector<Ledger> recorded = ledgers(2);
  recorded[1].steps.erase(7);
  try {
    compared(recorded, ledgers(2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    EXPECT_STREQ(error.what(), "the ledger of rank 1 has no step 7");
  }
  recorded[0].starts.clear();
  EXPECT_THROW(compared(recorded, ledgers(2)), Error);
}

}  // namespace
}  // namespace strata::trainer
