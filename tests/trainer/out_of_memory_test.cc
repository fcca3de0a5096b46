// SPDX-License-Identifier: MIT
// The report of a GPU whose memory does not suffice: classes, what is left for activations, remedies that apply.
#include "trainer/out_of_memory.h"

#include <gtest/gtest.h>

#include "tests/trainer/config_texts.h"

namespace strata::trainer {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

std::string report(const std::vector<std::string>& overrides) {
  const TrainerConfig config = parse_trainer_config("run.yaml", config_with(0, ""), overrides).config;
  return out_of_memory_report(config, {{"master weights", 4 * kGibibyte}, {"moments", 8 * kGibibyte}},
                              {80 * kGibibyte, 60 * kGibibyte, 75 * kGibibyte}, "2 GiB more were asked for");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(OutOfMemory, SaysWhereTheMemoryWent) {
  const std::string text = report({});
  EXPECT_EQ(text.find("the memory of the GPU does not suffice: 2 GiB more were asked for\n"), 0u) << text;
  EXPECT_TRUE(has(text, "moments                                      8.00 GiB")) << text;
  EXPECT_TRUE(has(text, "activations and what ops need besides       48.00 GiB")) << text;
  EXPECT_TRUE(has(text, "reserved, but in no tensor                  15.00 GiB")) << text;
}

TEST(OutOfMemory, NamesThreeRemediesThatApply) {
  const std::string text = report({"micro_batch=2"});
  EXPECT_TRUE(has(text, "micro_batch=1:")) << text;
  const std::string without = report({"micro_batch=1", "gradient_checkpointing=full", "precision.compute=bfloat16"});
  EXPECT_FALSE(has(without, "micro_batch=")) << without;
  EXPECT_FALSE(has(without, "gradient_checkpointing=")) << without;
  EXPECT_FALSE(has(without, "precision.compute")) << without;
  EXPECT_TRUE(has(without, "more ranks")) << without;
}

}  // namespace
}  // namespace strata::trainer
