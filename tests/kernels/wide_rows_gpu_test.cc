// SPDX-License-Identifier: MIT
// Checks rows as wide as those of models, at levels that choose by width how a row is spread over warps, blocks and
// clusters. There are enough rows that each block reuses the stages of its ring.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/proof/workload_check.h"

namespace strata::kernels {
namespace {

struct Wide {
  OpShape shape;
  at::ScalarType dtype;
};

std::vector<Wide> wide_shapes() {
  std::vector<Wide> all;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    for (const char* op : {"rms_norm", "add_rms_norm", "layer_norm", "add_layer_norm"}) {
      const bool bias = std::string_view(op).ends_with("layer_norm");
      for (const int64_t width : {768, 1600, 2056, 4104, 8192, 9000, 16384, 20000, 40000}) {
        all.push_back({{.op = op, .rows = 40'000'000 / width + 1, .width = width, .bias = bias}, dtype});
      }
    }
    for (const auto& [rows, classes] : {std::pair{3000, 1000},
                                        {3000, 16'392},
                                        {700, 50'304},
                                        {400, 90'000},
                                        {300, 128'256},
                                        {80, 400'000},
                                        {3, 1'000'000}}) {
      all.push_back({{.op = "cross_entropy", .rows = rows, .width = classes}, dtype});
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

// Returns the results and the gradients of all leaves.
std::vector<Tensor> run(const Workload& workload, Level level) {
  const Inputs inputs = fresh_inputs(workload);
  std::vector<Tensor> values = workload.run(inputs, level);
  const auto gradients = torch::autograd::grad(values, inputs.leaves, random_gradients(values));
  values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

TEST_P(WideOnGpu, LevelsAgree) {
  const auto& [shape, dtype] = GetParam();
  Workload workload = make_workload(shape, dtype, at::Device(at::kCUDA, 0));
  if (shape.op == "cross_entropy") workload.inputs.constants[0].slice(0, 1, {}, 7).fill_(-100);  // ignored
  const auto aten = deviations(workload, Level::aten);
  for (const Level level : {Level::triton, Level::cuda}) {
    SCOPED_TRACE(name(level));
    const Verdict found = verdict(workload, level, aten);
    // Level triton refuses rows that are too wide for it.
    if (level == Level::triton && found.words.rfind(shape.op + "/triton: ", 0) == 0) continue;
    EXPECT_TRUE(found.agreed) << found.words;
    const std::vector<Tensor> once = run(workload, level), twice = run(workload, level);
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(at::equal(once[i], twice[i])) << i << ": not the same bits twice";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, WideOnGpu, testing::ValuesIn(wide_shapes()), [](const auto& info) {
  return info.param.shape.op + "_" + std::to_string(info.param.shape.rows) + "x" +
         std::to_string(info.param.shape.width) + (info.param.dtype == at::kFloat ? "_fp32" : "_bf16");
});

}  // namespace
}  // namespace strata::kernels
