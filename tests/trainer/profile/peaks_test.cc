// SPDX-License-Identifier: MIT
#include "trainer/profile/peaks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace strata::trainer::profile {
namespace {

// CUDA's name of each board, and the FLOPs of its data sheet in float32, outside of the tensor cores. Its tensor cores
// multiply dense matrices of 16 bits, with sums in float32, `speedup` times as fast in one clock: a power of 2.
struct Board {
  std::string name;
  double float32_flops, speedup;
};

const std::vector<Board> kBoards = {{"Tesla T4", 8.1e12, 8},
                                    {"NVIDIA GeForce RTX 2080", 10.1e12, 4},
                                    {"NVIDIA A100-SXM4-40GB", 19.5e12, 16},
                                    {"NVIDIA A100-PCIE-40GB", 19.5e12, 16},
                                    {"NVIDIA A100-SXM4-80GB", 19.5e12, 16},
                                    {"NVIDIA A100 80GB PCIe", 19.5e12, 16},
                                    {"NVIDIA A10", 31.2e12, 4},
                                    {"NVIDIA GeForce RTX 3090", 35.6e12, 2},
                                    {"NVIDIA RTX A6000", 38.7e12, 4},
                                    {"NVIDIA L4", 30.3e12, 4},
                                    {"NVIDIA L40S", 91.6e12, 4},
                                    {"NVIDIA GeForce RTX 4090", 82.6e12, 2},
                                    {"NVIDIA H100 80GB HBM3", 67e12, 16},
                                    {"NVIDIA H100 PCIe", 51e12, 16},
                                    {"NVIDIA H100 NVL", 60e12, 16},
                                    {"NVIDIA H200", 67e12, 16},
                                    {"NVIDIA H200 NVL", 60e12, 16},
                                    {"NVIDIA GH200 480GB", 67e12, 16},
                                    {"NVIDIA H20", 44e12, 4},
                                    {"NVIDIA B200", 75e12, 32},
                                    {"NVIDIA B300 SXM6 AC", 75e12, 32},
                                    {"NVIDIA GeForce RTX 5090", 104.8e12, 2}};

// A number in GB/s or TFLOP/s would be outside of these bounds, and so would FLOPs with sparsity, or with sums in
// float16 on a GeForce, which are twice as many.
TEST(Peaks, AdvertisedRatesHaveTheirUnits) {
  for (const auto& [name, float32_flops, speedup] : kBoards) {
    const Rates rates = peaks_of(name).advertised;
    EXPECT_GE(rates.bytes, 300e9) << name;
    EXPECT_LE(rates.bytes, 8e12) << name;
    // Tensor cores may have a lower clock.
    EXPECT_GE(rates.flops, 0.8 * speedup * float32_flops) << name;
    EXPECT_LE(rates.flops, 1.05 * speedup * float32_flops) << name;
  }
}

TEST(Peaks, MeasuredRatesAreBelowAdvertisedOnes) {
  for (const char* name : {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}) {
    const Peaks peaks = peaks_of(name);
    EXPECT_EQ(peaks.source(), "measured") << name;
    EXPECT_EQ(peaks.roofline().bytes, peaks.measured.bytes) << name;
    for (const auto& [measured, advertised] : {std::pair(peaks.measured.bytes, peaks.advertised.bytes),
                                               std::pair(peaks.measured.flops, peaks.advertised.flops)}) {
      EXPECT_LT(measured, advertised) << name;
      EXPECT_GT(measured, 0.7 * advertised) << name;
    }
  }
  EXPECT_EQ(peaks_of("NVIDIA L4").source(), "advertised");
  EXPECT_EQ(peaks_of("NVIDIA L4").roofline().flops, 121e12);
}

// The first column of the table of GPUs has names such as "L40S, RTX 4090".
TEST(Peaks, EachGpuOfThePageOfLevelsHasARow) {
  std::ifstream page("docs/levels.md");
  ASSERT_TRUE(page) << "docs/levels.md";
  std::string line;
  while (std::getline(page, line) && line != "## GPUs") {
  }
  int gpus = 0;
  while (std::getline(page, line)) {
    if (line.rfind("| ", 0) != 0 || line.rfind("| GPUs", 0) == 0 || line.rfind("| ---", 0) == 0) continue;
    std::istringstream names(line.substr(2, line.find(" |", 2) - 2));
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
      ++gpus;
      const bool known = std::any_of(kBoards.begin(), kBoards.end(), [&](const Board& board) {
        // Boards have the name of their chip as a word.
        const std::string text = " " + board.name + " ", begin = " " + name;
        const size_t at = text.find(begin);
        return at != std::string::npos && std::string(" -").find(text[at + begin.size()]) != std::string::npos;
      });
      EXPECT_TRUE(known) << name;
    }
  }
  EXPECT_GE(gpus, 12);
}

TEST(Peaks, OfOtherDevicesAreUnknown) {
  for (const char* other : {"cpu", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA", ""}) {
    const Peaks peaks = peaks_of(other);
    EXPECT_EQ(peaks.source(), "") << other;
    EXPECT_EQ(peaks.advertised.flops, 0) << other;
    EXPECT_EQ(peaks.roofline().bytes, 0) << other;
  }
}

}  // namespace
}  // namespace strata::trainer::profile
