// SPDX-License-Identifier: MIT
// The report of a GPU whose memory does not suffice: classes, what is left for activations, remedies that apply.
#include "trainer/prediction/out_of_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

std::string remedies(const std::vector<std::string>& overrides) {
  const TrainerConfig config = parse_trainer_config("run.yaml", config_with(0, ""), overrides).config;
  return what_needs_less(config);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(OutOfMemory, SaysWhereTheMemoryWent) {
  const std::string text =
      out_of_memory_report({{"master weights", 4 * kGibibyte}, {"moments", 8 * kGibibyte}},
                           {80 * kGibibyte, 60 * kGibibyte, 75 * kGibibyte}, "2 GiB more were asked for");
  EXPECT_EQ(text.find("the memory of the GPU does not suffice: 2 GiB more were asked for\n"), 0u) << text;
  EXPECT_TRUE(has(text, "moments                                      8.00 GiB")) << text;
  EXPECT_TRUE(has(text, "activations and what ops need besides       48.00 GiB")) << text;
  EXPECT_TRUE(has(text, "reserved, but in no tensor                  15.00 GiB")) << text;
}

TEST(OutOfMemory, NamesThreeRemediesThatApply) {
  const std::string text = remedies({"micro_batch=2"});
  EXPECT_TRUE(has(text, "micro_batch=1:")) << text;
  const std::string without = remedies({"micro_batch=1", "gradient_checkpointing=full", "precision.compute=bfloat16"});
  EXPECT_FALSE(has(without, "micro_batch=")) << without;
  EXPECT_FALSE(has(without, "gradient_checkpointing=")) << without;
  EXPECT_FALSE(has(without, "precision.compute")) << without;
  EXPECT_TRUE(has(without, "sharding.sequence=2: ranks share sequences")) << without;
  EXPECT_TRUE(has(without, "more ranks")) << without;
  EXPECT_TRUE(has(remedies({"micro_batch=9", "batch=18"}), "micro_batch=3: 1/3 of the activations"));
  // Some layers compute all again: others could, but for all of them it is the other way round.
  const std::string some = remedies({"micro_batch=1", "gradient_checkpointing=[0]"});
  EXPECT_FALSE(has(some, "gradient_checkpointing=selective")) << some;
  EXPECT_TRUE(has(some, "gradient_checkpointing=full")) << some;
}

TEST(OutOfMemory, LeavesOutWhatDoesNotHelp) {
  const TrainerConfig config = parse_trainer_config("run.yaml", config_with(0, ""), {"micro_batch=2"}).config;
  const std::string text = what_needs_less(config, [](const TrainerConfig& changed) -> std::optional<std::string> {
    if (changed.micro_batch == 1) return std::nullopt;
    return changed.gradient_checkpointing.of(0) == Recompute::full ? "least" : "";
  });
  EXPECT_FALSE(has(text, "micro_batch")) << text;
  EXPECT_TRUE(has(text, "gradient_checkpointing=selective: ")) << text;
  EXPECT_TRUE(has(text, "for a third more computation (least)")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

}  // namespace
}  // namespace strata::trainer
