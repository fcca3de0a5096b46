// SPDX-License-Identifier: MIT
// Checks ops that index flat memory on more elements than 31 bits can count: every level on the GPU against the
// formula, in parts. Needs 110 GB of GPU memory.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "kernels/levels.h"
#include "kernels/proof/workload_check.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRows = (int64_t{1} << 20) + 1, kWidth = 2048;  // 2^31 + 2048 elements
static_assert(kRows * kWidth > int64_t{1} << 31);

std::vector<OpShape> huge_shapes() {
  return {
      {.op = "activation", .rows = kRows, .width = kWidth, .activation = Activation::gelu_tanh},
      {.op = "swiglu", .rows = kRows, .width = kWidth / 2},
      {.op = "dropout", .rows = kRows, .width = kWidth},
      {.op = "rms_norm", .rows = kRows, .width = kWidth},
      {.op = "embedding", .rows = kRows, .width = kWidth, .outputs = 1000},
      {.op = "cross_entropy", .rows = 42'700, .width = 50'304},
      {.op = "adamw", .rows = 1, .width = kRows * kWidth},
      {.op = "global_norm", .rows = 1, .width = kRows * kWidth},
  };
}

class HugeOnGpu : public testing::TestWithParam<OpShape> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  void TearDown() override { c10::cuda::CUDACachingAllocator::emptyCache(); }
};

TEST_P(HugeOnGpu, LevelsAgree) {
  const Workload workload = make_workload(GetParam(), at::kBFloat16, at::Device(at::kCUDA, 0));
  const auto aten = deviations(workload, Level::aten);
  for (const LevelRow& row : level_matrix()) {
    if (row.op != GetParam().op || row.device != c10::kCUDA || !row.forward) continue;
    const Verdict found = verdict(workload, row.level, aten);
    EXPECT_TRUE(found.agreed) << name(row.level) << ": " << found.words;
    std::printf("%s %s %s: error %.3f of what is allowed\n", GetParam().op.c_str(), text(GetParam()).c_str(),
                std::string(name(row.level)).c_str(), found.share);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, HugeOnGpu, testing::ValuesIn(huge_shapes()),
                         [](const auto& info) { return info.param.op; });

}  // namespace
}  // namespace strata::kernels
