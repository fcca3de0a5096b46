// SPDX-License-Identifier: MIT
// Checks that every level gives the same bits twice on a GPU at the sizes of models, where kernels split their sums.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <exception>
#include <map>
#include <string>
#include <vector>

#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/evaluation.h"
#include "kernels/proof/workload_check.h"
#include "tests/kernels/gpus/asked_architecture.h"
#include "tests/kernels/workload_values.h"

namespace strata::kernels {
namespace {

struct Run {
  OpShape shape;
  Level level;
};

// Levels aten and cuda of some ops repeat their bits in deterministic mode only.
bool repeats(const Run& run) {
  const bool if_asked = proof_of(run.shape.op()).deterministic_if_asked;
  return !if_asked || (run.level != Level::aten && run.level != Level::cuda);
}

std::vector<Run> runs() {
  std::vector<Run> all;
  for (const OpProof& proof : op_proofs()) {
    for (const OpShape& shape : proof.gpu_shapes) {
      for (const LevelRow& row : level_matrix()) {
        if (row.op != shape.op() || row.device != c10::kCUDA || !row.forward || !is_asked_for(row.gpus)) continue;
        // Its maximum is a gather, whose gradient LibTorch adds by atomics on GPUs, also in deterministic mode.
        if (row.op == "neighbor_aggregate" && row.level == Level::torchscript) continue;
        all.push_back({shape, row.level});
      }
    }
  }
  return all;
}

class TwiceOnGpu : public testing::TestWithParam<Run> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  void TearDown() override {
    if (at::hasCUDA()) c10::cuda::CUDACachingAllocator::emptyCache();
  }

  // A level that refuses all shapes of an op would pass without a proof.
  static void TearDownTestSuite() {
    for (const auto& [slot, count] : compared()) EXPECT_GT(count, 0) << slot << " refuses every shape";
  }

  std::string slot() const { return std::string(GetParam().shape.op()) + "/" + std::string(name(GetParam().level)); }

  // The number of shapes that were compared at each level of each op.
  static std::map<std::string, int>& compared() {
    static std::map<std::string, int> counts;
    return counts;
  }
};

// Returns the results and the gradients of all leaves.
std::vector<Tensor> run_once(const Workload& workload, Level level) {
  const DeterministicScope scope(workload, level);
  return workload_values(workload, level);
}

TEST_P(TwiceOnGpu, SameBits) {
  Workload workload = make_workload(GetParam().shape, at::kBFloat16, at::Device(at::kCUDA, 0));
  workload.deterministic = workload.deterministic || !repeats(GetParam());
  std::vector<Tensor> once;
  int& compared_shapes = compared()[slot()];
  try {
    for (int i = 0; i < calls_before_bits_repeat(GetParam().level); ++i) run_once(workload, GetParam().level);
    once = run_once(workload, GetParam().level);
  } catch (const std::exception& error) {
    const std::string sentence = sentence_of(error);
    // The formula keeps scores of every pair: attention of 8192 tokens takes more than 80 GB.
    if (GetParam().level == Level::torchscript && sentence.find("out of memory") != std::string::npos) {
      GTEST_SKIP() << "not run: this GPU has too little memory";
    }
    // A level may refuse a shape in its own words. Level aot_inductor has no package for a width that no test compiles.
    if (!sentence.starts_with(slot() + ": ")) throw;
    GTEST_SKIP() << "refused: " << sentence;
  }
  const std::vector<Tensor> twice = run_once(workload, GetParam().level);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], twice[i])) << "result " << i;
  ++compared_shapes;
}

INSTANTIATE_TEST_SUITE_P(Ops, TwiceOnGpu, testing::ValuesIn(runs()), [](const auto& info) {
  return std::string(info.param.shape.op()) + "_" + std::to_string(info.index) + "_" +
         std::string(name(info.param.level));
});

}  // namespace
}  // namespace strata::kernels
