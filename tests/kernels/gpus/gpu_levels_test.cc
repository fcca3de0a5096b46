// SPDX-License-Identifier: MIT
// Which GPUs have which level of which op, as it was read from the code that the ops link.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/level_matrix.h"
#include "kernels/runtime/gpus.h"

namespace strata::kernels {
namespace {

using Levels = std::set<std::string>;

const Gpu kV100 = {"Tesla V100-SXM2-16GB", 70}, kT4 = {"Tesla T4", 75}, kA100 = {"NVIDIA A100-SXM4-80GB", 80},
          kAda = {"NVIDIA GeForce RTX 4090", 89}, kH100 = {"NVIDIA H100 80GB HBM3", 90}, kB200 = {"NVIDIA B200", 100};

Levels levels_on(std::string_view op, const Gpu& gpu) {
  Levels levels;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (has_level(op, Level(i), {c10::kCUDA, gpu})) levels.emplace(kLevelNames[i]);
  }
  return levels;
}

TEST(GpuLevels, OfEveryOpAreThoseThatAreCompiledForTheGpu) {
  const Levels everywhere = {"aten", "torchscript"};
  for (const LevelRow& row : level_matrix()) {
    SCOPED_TRACE(std::string(row.op));
    Levels all;
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      if (has_level(row.op, Level(i), {c10::kCUDA})) all.emplace(kLevelNames[i]);
    }
    EXPECT_EQ(levels_on(row.op, kH100), all);
    EXPECT_EQ(levels_on(row.op, kT4), everywhere);
    Levels portable = everywhere;
    if (all.contains("cuda")) portable.insert("cuda");
    if (row.op != "attention" && all.contains("triton")) portable.insert("triton");
    for (const Gpu& gpu : {kA100, kAda, kB200}) EXPECT_EQ(levels_on(row.op, gpu), portable) << gpu.name;
  }
}

// The loader of Triton's code stands below all ops. It takes cubins on kHopper, and PTX, where there is some, on the
// others of kPortable.
TEST(GpuLevels, OfTritonAreWhatItsLoaderTakes) {
  for (const Gpu& gpu : {kV100, kT4, kA100, kAda, kH100, kB200}) {
    SCOPED_TRACE(gpu.name);
    EXPECT_EQ(has_level("rms_norm", Level::triton, {c10::kCUDA, gpu}), kPortable.has(gpu.capability));
    EXPECT_EQ(has_level("attention", Level::triton, {c10::kCUDA, gpu}), kHopper.has(gpu.capability));
  }
}

TEST(GpuLevels, CodeForOlderGpusIsChosenOnNewerOnesAlone) {
  EXPECT_EQ(chosen_capability(90), 90);
  set_architecture(80);
  EXPECT_EQ(chosen_capability(75), 75);
  EXPECT_EQ(chosen_capability(80), 80);
  EXPECT_EQ(chosen_capability(90), 80);
  set_architecture(0);
  EXPECT_EQ(chosen_capability(90), 90);
}

TEST(GpuLevels, OfCpusAndOfUnknownOpsAskNoGpu) {
  EXPECT_TRUE(has_level("rms_norm", Level::aot_inductor, {c10::kCPU}));
  EXPECT_FALSE(has_level("rms_norm", Level::cuda, {c10::kCPU}));
  EXPECT_FALSE(has_level("rms_nrom", Level::aten, {c10::kCPU}));
  EXPECT_FALSE(target_of(c10::Device("cpu")).gpu);
  EXPECT_FALSE(target_of(c10::Device("cuda")).gpu) << "any GPU";
}

TEST(GpuLevels, RangesOfGpusHaveTheirEnds) {
  EXPECT_EQ(to_text(kEveryGpu), "every");
  EXPECT_EQ(to_text({75}), "7.5 or later");
  EXPECT_EQ(to_text({80, 89}), "8.0 to 8.9");
  EXPECT_EQ(to_text({120, 120}), "12.0");
  EXPECT_EQ(to_text(kHopper), "9.0 (H100, H200)");
  EXPECT_FALSE(kHopper.has(91)) << "code of sm_90a runs on 9.0 alone";
  EXPECT_EQ(why_not_on_gpu({75}, kT4), "");
  EXPECT_EQ(why_not_on_gpu({75}, kV100),
            "runs on GPUs of compute capability 7.5 or later, and this Tesla V100-SXM2-16GB has 7.0");
  EXPECT_EQ(why_not_on_gpu({80, 89}, kAda), "");
  EXPECT_EQ(why_not_on_gpu({80, 89}, kH100),
            "runs on GPUs of compute capability 8.0 to 8.9, and this NVIDIA H100 80GB HBM3 has 9.0");
}

}  // namespace
}  // namespace strata::kernels
