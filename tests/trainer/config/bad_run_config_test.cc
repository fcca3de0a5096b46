// SPDX-License-Identifier: MIT
// Checks the messages for rules of a run: its batch, steps and ranks, what it saves and evaluates, and when it goes on.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

class BadRunLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadRunLine, IsReportedAlone) { expect_reported_at_once(GetParam()); }

const BadLine kBadLines[] = {
    {"profile_after_the_end", 14, "profile: {steps: 99-101}",
     "run.yaml:14:11: profile.steps: expected steps from 1 to 100, got 99-101"},
    {"profile_of_step_0", 14, "profile: {steps: 0-3}",
     "run.yaml:14:11: profile.steps: expected steps from 1 to 100, got 0-3"},
    {"profile_nothing", 14, "profile: {steps: nnoe}",
     "run.yaml:14:18: profile.steps: expected 'none', or a number or a range such as 0-3 or 0-30 step 2, got 'nnoe'; "
     "did you mean "
     "'none'?"},
    {"batch_not_divisible", 3, "batch: 20",
     "run.yaml:3:1: batch: 20 is not a multiple of micro_batch 4 x run.ranks 2 = 8; nearest that are: 16 and 24; or "
     "take micro_batch 2"},
    {"micro_batch_past_the_batch", 4, "micro_batch: 1000000000",
     "run.yaml:3:1: batch: 16 is not a multiple of micro_batch 1000000000 x run.ranks 2 = 2000000000; the nearest "
     "is 2000000000; or take micro_batch 8"},
    {"batch_too_small", 3, "batch: 4",
     "run.yaml:3:1: batch: 4 is not a multiple of micro_batch 4 x run.ranks 2 = 8; the nearest is 8; or take "
     "micro_batch 2"},
    {"warmup_past_the_end", 8, "schedule: {type: cosine, warmup: 101}",
     "run.yaml:8:26: schedule.warmup: expected at most steps 100, got 101"},
    {"decay_and_warmup_too_long", 8, "schedule: {type: wsd, warmup: 50, decay: 60}",
     "run.yaml:8:35: schedule.decay: warmup 50 + decay 60 is more than steps 100"},
    {"decay_missing", 8, "schedule: {type: wsd, warmup: 50}",
     "run.yaml:8:1: schedule.decay: missing; expected an integer, at least 1, at most 1000000000000"},
    {"weights_change_their_sign", 7, "optimizer: {type: adamw, learning_rate: 0.5, weight_decay: 3}",
     "run.yaml:7:46: optimizer.weight_decay: learning_rate 0.5 x weight_decay 3 = 1.5; expected at most 1, because a "
     "step takes this share from the weights"},
    {"epsilon_below_float32", 7, "optimizer: {type: adamw, learning_rate: 1e-3, epsilon: 1e-46}",
     "run.yaml:7:56: optimizer.epsilon: expected a number, at least 1e-30, at most 10000000000, got '1e-46'"},
    {"scale_that_never_grows", 9, "precision: {compute: float16, loss_scaling: {growth: 1}}",
     "run.yaml:9:54: precision.loss_scaling.growth: expected a number, above 1, at most 1024, got '1'"},
    {"timeout_of_no_clock", 1, "run: {folder: runs/test, ranks: 2, timeout: 1e300}",
     "run.yaml:1:45: run.timeout: expected a number, above 0, at most 1000000000, got '1e300'"},
    {"evaluation_after_all_steps", 13, "evaluation: {every: 9223372036854775807}",
     "run.yaml:13:21: evaluation.every: expected an integer, at least 0, at most 1000000000000, got "
     "'9223372036854775807'"},
    {"tokens_of_no_data", 13, "evaluation: {tokens: 9223372036854775807}",
     "run.yaml:13:22: evaluation.tokens: expected an integer, at least 0, at most 100000000000000, got "
     "'9223372036854775807'"},
    {"checkpoints_of_no_disk", 12, "checkpoint: {keep: 9223372036854775807}",
     "run.yaml:12:20: checkpoint.keep: expected an integer, at least 2, at most 1000000000, got "
     "'9223372036854775807'"},
    {"memory_of_no_rank", 14, "memory_budget: 1e300",
     "run.yaml:14:16: memory_budget: expected 'none', or a number, above 0, at most 1000000, got '1e300'"},
    {"stop_past_the_end", 1, "run: {folder: runs/test, ranks: 2, stop_after: 101}",
     "run.yaml:1:36: run.stop_after: expected at most steps 100, got 101"},
    {"shard_ranks_without_hybrid", 10, "sharding: {strategy: full, shard_ranks: 2}",
     "run.yaml:10:28: sharding.shard_ranks: belongs to strategy: hybrid; leave it out, or set 0"},
    {"hybrid_without_shard_ranks", 10, "sharding: {strategy: hybrid}",
     "run.yaml:10:1: sharding.shard_ranks: missing; strategy: hybrid needs the number of ranks that share one copy"},
    {"hybrid_does_not_divide", 10, "sharding: {strategy: hybrid, shard_ranks: 3}",
     "run.yaml:10:30: sharding.shard_ranks: run.ranks 2 = copies x shard_ranks 3 has no whole number of copies"},
    {"evaluation_below_one_sample", 13, "evaluation: {tokens: 31}",
     "run.yaml:13:14: evaluation.tokens: expected 0 (all) or at least model.sequence 32, got 31"},
    {"last_evaluation_below_one_sample", 13, "evaluation: {final_tokens: 31}",
     "run.yaml:13:14: evaluation.final_tokens: expected 0 (all) or at least model.sequence 32, got 31"},
    {"too_many_shown_samples", 13, "evaluation: {samples: 65}",
     "run.yaml:13:23: evaluation.samples: expected an integer, at least 0, at most 64, got '65'"},
    {"fault_without_permission", 14, "fault: {at: step 7 rank 1, kind: nan}",
     "run.yaml:14:28: fault.kind: faults are for tests; refused because STRATA_FAULTS=1 is not in the environment"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadRunLine, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

// The search for another micro_batch does not try every number.
TEST(BadRunConfig, ABatchOfTheLargestSizeIsCheckedAtOnce) {
  const double start = processor_milliseconds();
  EXPECT_EQ(first_line(report_of(config_with(3, "batch: 999999998"), {"micro_batch=499999998"})),
            "run.yaml:3:1: batch: 999999998 is not a multiple of micro_batch 499999998 x run.ranks 2 = 999999996; "
            "nearest that are: 999999996 and 1999999992; or take micro_batch 723589");
  EXPECT_LT(processor_milliseconds() - start, 1000);
}

TEST(BadRunConfig, WhatGpusAloneHaveIsRefusedOnCpus) {
  for (const std::string gather : {"separate", "copy_engines"}) {
    EXPECT_EQ(report_of(config_with(0, ""), {"run.device=cpu", "sharding.gather=" + gather}),
              "override 'sharding.gather=" + gather + "': sharding.gather: " + gather +
                  " needs GPUs, and run.device is cpu; expected shared\n");
    EXPECT_EQ(report_of(config_with(0, ""), {"run.device=auto", "sharding.gather=" + gather}), "no error");
  }
  EXPECT_EQ(report_of(config_with(0, ""), {"run.device=cpu", "cuda_graph=on"}),
            "override 'cuda_graph=on': cuda_graph: on needs GPUs, and run.device is cpu\n");
}

TEST(BadRunConfig, RestartsOfARunThatIsNeverResumed) {
  for (const char* resume : {"auto", "require", "never"}) {
    const std::string report = report_of(config_with({{1, "run: {folder: runs/test, ranks: 2, restarts: 3}"},
                                                      {12, std::string("checkpoint: {resume: ") + resume + "}"}}));
    EXPECT_EQ(first_line(report), resume != std::string("never")
                                      ? "no error"
                                      : "run.yaml:1:36: run.restarts: expected 0, because checkpoint.resume is never, "
                                        "got 3; restarts need checkpoint.resume auto or require");
  }
}

TEST(BadRunConfig, ARollbackOfARunThatIsNeverResumed) {
  for (const char* resume : {"auto", "require", "never"}) {
    const std::string report = report_of(config_with({{1, "run: {folder: runs/test, ranks: 2, on_nonfinite: rollback}"},
                                                      {12, std::string("checkpoint: {resume: ") + resume + "}"}}));
    EXPECT_EQ(first_line(report),
              resume != std::string("never")
                  ? "no error"
                  : "run.yaml:1:36: run.on_nonfinite: expected stop or skip, because checkpoint.resume is never, got "
                    "rollback; a rollback needs checkpoint.resume auto or require");
  }
}

TEST(BadRunConfig, MilestonesThatAreNeverSaved) {
  const auto first = [](const std::string& checkpoint) {
    return first_line(report_of(config_with(12, "checkpoint: {" + checkpoint + "}")));
  };
  EXPECT_EQ(first("every: 100, keep_every: 300"), "no error");
  EXPECT_EQ(first("every: 100, keep_every: 0"), "no error");
  EXPECT_EQ(first("every: 100, keep_every: 250"),
            "run.yaml:12:26: checkpoint.keep_every: 250 is not a multiple of checkpoint.every 100; nearest that are: "
            "200 and 300");
  EXPECT_EQ(first("every: 100, keep_every: 50"),
            "run.yaml:12:26: checkpoint.keep_every: 50 is not a multiple of checkpoint.every 100; the nearest is 100");
  EXPECT_EQ(first("keep_every: 50"),
            "run.yaml:12:14: checkpoint.keep_every: expected 0, because checkpoint.every is 0 and only the last step "
            "is saved, got 50");
  EXPECT_EQ(first("every: 100, keep_every: -1"),
            "run.yaml:12:38: checkpoint.keep_every: expected an integer, at least 0, at most 1000000000000, got '-1'");
}

}  // namespace
}  // namespace strata::trainer
