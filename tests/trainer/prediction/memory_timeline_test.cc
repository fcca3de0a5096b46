// SPDX-License-Identifier: MIT
// Checks that the memory over a step adds up to the predicted peak, and what the picture marks there.
#include "trainer/prediction/memory_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/load_config.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"

namespace strata::trainer {
namespace {

using kernels::TracedBlock;

TrainerConfig config_with(const std::vector<std::string>& overrides) {
  const std::string text =
      "run: {folder: unused, ranks: 2, device: cpu}\nsteps: 1\nbatch: 8\nmicro_batch: 2\n"
      "model: {type: transformer, family: llama, layers: 3, width: 24, heads: 3, feed_forward: 40, sequence: 16, "
      "vocabulary: 37}\n"
      "data: {type: text, train: unused, validation: unused}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  return parse_trainer_config("test.yaml", text, overrides).config;
}

TEST(MemoryTimeline, AddsUpToThePredictedPeak) {
  const std::vector<std::vector<std::string>> all = {
      {},
      {"batch=4"},
      {"gradient_checkpointing=full"},
      {"gradient_checkpointing=selective"},
      {"kernels.default=torchscript"},
      {"kernels.linear_cross_entropy=aten"},
      {"run.device=cuda", "precision.compute=bfloat16"},
      {"run.device=cuda", "precision.compute=bfloat16", "kernels.default=cuda", "sharding.prefetch=0"}};
  for (const std::vector<std::string>& overrides : all) {
    SCOPED_TRACE(overrides.empty() ? "" : overrides.back());
    const TrainerConfig config = config_with(overrides);
    const std::unique_ptr<Task> task = task_to_trace(config);
    std::vector<TracedBlock> blocks;
    const StepTrace step = trace_step(config, *task, /*rank=*/0, /*calls=*/nullptr, &blocks);
    const PeakOfBlocks peak = peak_of(blocks);
    EXPECT_EQ(peak.kept + peak.temporary, step.peak);
    EXPECT_GT(peak.kept, 0);
    EXPECT_EQ(step.peak, trace_step(config, *task).peak);  // a recording changes nothing
    const PeakMemory memory(config);
    const std::vector<MemoryClass> lasting = memory.lasting(step);
    EXPECT_EQ(sum_of(lasting) + peak.kept + peak.temporary, sum_of(memory.classes(step)));
    EXPECT_EQ(lasting.size() + 2, memory.classes(step).size());
    EXPECT_GT(std::ranges::count(blocks, "the backward of the loss", &TracedBlock::place), 0);
    ASSERT_EQ(peak.largest.size(), 10U);
    for (const TracedBlock& block : peak.largest) EXPECT_FALSE(block.place.empty());
  }
}

TEST(MemoryTimeline, MarksWhatLivesAtThePeak) {
  // Events 0 to 7. All four blocks live at event 3. The first is kept for the backward.
  const std::vector<TracedBlock> blocks = {{10, 0, 7, "the forward of layer 0", "linear/aten"},
                                           {100, 1, 5, "the backward of layer 0", "linear/aten/backward"},
                                           {30, 2, 4, "the backward of layer 0", ""},
                                           {1, 3, 6, "the backward of layer 0", ""}};
  const PeakOfBlocks peak = peak_of(blocks);
  EXPECT_EQ(peak.event, 3);
  EXPECT_EQ(peak.kept, 10);
  EXPECT_EQ(peak.temporary, 131);
  ASSERT_EQ(peak.largest.size(), 4U);
  EXPECT_EQ(peak.largest[0].bytes, 100);
  EXPECT_EQ(peak.largest[3].bytes, 1);
  const std::string picture = memory_timeline({{"master parameters", 1000}}, blocks);
  for (const char* text :
       {"most at once: 1,141 bytes", "master parameters: 1,000 bytes", "activations, at the peak: 10 bytes",
        "100 bytes, 0.00 MiB: the backward of layer 0, linear/aten/backward</text>"}) {
    EXPECT_NE(picture.find(text), std::string::npos) << text << " in " << picture;
  }
}

TEST(MemoryTimeline, CountsWhatWasFreedFromBefore) {
  // The block of before takes 50 bytes until event 1.
  const PeakOfBlocks peak = peak_of({{50, 0, -1, "the round before", ""},
                                     {20, 0, -1, "the backward of layer 0", ""},
                                     {-50, 1, -1, "the backward of layer 0", ""},
                                     {60, 2, -1, "the backward of layer 0", ""}});
  EXPECT_EQ(peak.event, 2);
  EXPECT_EQ(peak.kept, 0);
  EXPECT_EQ(peak.temporary, 80);
}

}  // namespace
}  // namespace strata::trainer
