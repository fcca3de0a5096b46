// SPDX-License-Identifier: MIT
// Checks rows as wide as those of models, at levels that choose by width how a row is spread over warps, blocks and
// clusters. There are enough rows that each block reuses the stages of its ring. STRATA_ARCHITECTURE=80 proves the code
// for other GPUs than Hopper.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "tests/kernels/gpus/asked_architecture.h"
#include "tests/kernels/workload_values.h"

namespace strata::kernels {
namespace {

constexpr int64_t kIgnored = -100;
// With a large share of label smoothing the gradients of classes that are no targets are seen in fp32.
constexpr double kSmoothing = 0.5;

struct Wide {
  OpShape shape;
  at::ScalarType dtype;
  int64_t rows, width;
  double label_smoothing = 0;
};

std::vector<Wide> wide_shapes() {
  std::vector<Wide> all;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    for (const bool adds : {false, true}) {
      for (const int64_t width : {768, 1600, 2056, 4104, 8192, 9000, 16384, 20000, 40000}) {
        const int64_t rows = 40'000'000 / width + 1;
        all.push_back({RmsNormShape{.rows = rows, .width = width, .adds = adds}, dtype, rows, width});
        all.push_back({LayerNormShape{.rows = rows, .width = width, .bias = true, .adds = adds}, dtype, rows, width});
      }
    }
    for (const auto& [rows, classes] : {std::pair{3000, 1000},
                                        {3000, 16'392},
                                        {700, 50'304},
                                        {400, 90'000},
                                        {300, 128'256},
                                        {80, 400'000},
                                        {3, 1'000'000}}) {
      for (const double smoothing : {0.0, kSmoothing}) {
        all.push_back({CrossEntropyShape{.rows = rows, .classes = classes}, dtype, rows, classes, smoothing});
      }
    }
  }
  return all;
}

class WideOnGpu : public testing::TestWithParam<Wide> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

// Returns the workload. Some rows of cross_entropy are ignored.
Workload workload_of(const Wide& wide) {
  Workload workload = make_workload(wide.shape, wide.dtype, at::Device(at::kCUDA, 0));
  if (wide.shape.op() != "cross_entropy") return workload;
  workload.inputs.constants[0].slice(0, 1, {}, 7).fill_(kIgnored);
  workload.run = [smoothing = wide.label_smoothing](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {cross_entropy(in.leaves[0], in.constants[0], in.constants[1], kIgnored, smoothing, level)};
  };
  return workload;
}

TEST_P(WideOnGpu, LevelsAgree) {
  const OpShape& shape = GetParam().shape;
  const Workload workload = workload_of(GetParam());
  for (const Level level : {Level::triton, Level::cuda}) {
    SCOPED_TRACE(name(level));
    const Verdict found = verdict(workload, level);
    // Level triton refuses rows that are too wide for it.
    if (level == Level::triton && found.words.starts_with(std::string(shape.op()) + "/triton: ")) continue;
    EXPECT_TRUE(found.agreed) << found.words;
    std::printf("%s: error %.2f of what is allowed\n", std::string(name(level)).c_str(), found.share);
    const std::vector<Tensor> once = workload_values(workload, level), twice = workload_values(workload, level);
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(at::equal(once[i], twice[i])) << i << ": not the same bits twice";
  }
}

// Without a gradient the kernels of cross_entropy read a row once, and do not write over it.
TEST_P(WideOnGpu, LossesAgreeWithoutGradients) {
  if (GetParam().shape.op() != "cross_entropy") return;
  Workload workload = workload_of(GetParam());
  workload.differentiable = false;
  for (const Level level : {Level::triton, Level::cuda}) {
    SCOPED_TRACE(name(level));
    const Verdict found = verdict(workload, level);
    if (level == Level::triton && found.words.starts_with("cross_entropy/triton: ")) continue;
    EXPECT_TRUE(found.agreed) << found.words;
  }
  const Inputs inputs = fresh_inputs(workload);
  workload.run(inputs, Level::cuda);
  EXPECT_TRUE(at::equal(inputs.leaves[0], workload.inputs.leaves[0])) << "the logits were written";
}

INSTANTIATE_TEST_SUITE_P(Ops, WideOnGpu, testing::ValuesIn(wide_shapes()), [](const auto& info) {
  return std::string(info.param.shape.op()) + "_" + std::to_string(info.param.rows) + "x" +
         std::to_string(info.param.width) + (info.param.label_smoothing == 0 ? "" : "_smoothed") +
         (info.param.dtype == at::kFloat ? "_fp32" : "_bf16");
});

}  // namespace
}  // namespace strata::kernels
