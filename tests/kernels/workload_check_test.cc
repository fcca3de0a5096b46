// SPDX-License-Identifier: MIT
// Checks the proof at full size: it accepts right results, part by part, and refuses wrong ones.
#include "kernels/proof/workload_check.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <limits>

namespace strata::kernels {
namespace {

std::vector<OpShape> one_of_each() {
  return {
      {.op = "linear", .rows = 40, .width = 33, .outputs = 24, .activation = Activation::gelu_tanh, .bias = true},
      {.op = "layer_norm", .rows = 40, .width = 33, .bias = true},
      {.op = "add_layer_norm", .rows = 40, .width = 33},
      {.op = "rms_norm", .rows = 40, .width = 33},
      {.op = "add_rms_norm", .rows = 40, .width = 33},
      {.op = "layer_norm_gelu_tanh", .rows = 40, .width = 33, .bias = true},
      {.op = "activation", .rows = 40, .width = 33, .activation = Activation::silu},
      {.op = "swiglu", .rows = 40, .width = 33},
      {.op = "rotary", .rows = 36, .width = 8, .positions = 12, .heads = 4, .key_value_heads = 2},
      {.op = "attention",
       .rows = 36,
       .width = 8,
       .positions = 12,
       .heads = 4,
       .key_value_heads = 2,
       .deterministic = true},
      {.op = "embedding", .rows = 40, .width = 16, .outputs = 23},
      {.op = "dropout", .rows = 40, .width = 33},
      {.op = "add_dropout", .rows = 40, .width = 33},
      {.op = "cross_entropy", .rows = 40, .width = 33},
      {.op = "linear_cross_entropy", .rows = 40, .width = 33, .outputs = 24},
      {.op = "adamw", .rows = 1, .width = 1000},
      {.op = "global_norm", .rows = 1, .width = 1000},
      {.op = "neighbor_aggregate", .rows = 40, .width = 33, .edges = 150, .reduction = Reduction::mean},
      {.op = "neighbor_aggregate", .rows = 40, .width = 33, .edges = 150, .sources = 57, .weighted = true},
      {.op = "neighbor_attention", .rows = 40, .width = 8, .heads = 2, .edges = 150, .sources = 57},
  };
}

class WorkloadCheck : public testing::TestWithParam<OpShape> {};

TEST_P(WorkloadCheck, AgreesWithWhatIsRight) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Workload workload = make_workload(GetParam(), dtype, at::kCPU);
    const auto aten = deviations(workload, Level::aten);
    for (const Level level : {Level::aten, Level::torchscript}) {
      const Verdict found = verdict(workload, level, aten);
      EXPECT_TRUE(found.agreed) << name(level) << " " << dtype << ": " << found.words;
      EXPECT_LE(found.share, 1);
    }
  }
}

// The parts of the formula together give the whole result.
TEST_P(WorkloadCheck, SplitsRowsWithoutASeam) {
  const Workload workload = make_workload(GetParam(), at::kFloat, at::kCPU);
  const auto whole = deviations(workload, Level::aten),
             parts = deviations(workload, Level::aten, /*part_elements=*/100);
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i].error, parts[i].error, 1e-9 * whole[i].scale) << whole[i].name;
    EXPECT_NEAR(whole[i].scale, parts[i].scale, 1e-9 * whole[i].scale) << whole[i].name;
  }
}

// The level is wrong in the last of its results, by a few thousandths or by a NaN.
TEST_P(WorkloadCheck, DoesNotAgreeWithWhatIsWrong) {
  for (const double wrong : {0.005, std::numeric_limits<double>::quiet_NaN()}) {
    Workload workload = make_workload(GetParam(), at::kFloat, at::kCPU);
    workload.run = [run = workload.run, wrong](const Inputs& inputs, Level level) {
      std::vector<Tensor> results = run(inputs, level);
      if (results[0].scalar_type() == at::kFloat) results.back() = results.back() * (1 + wrong);
      return results;
    };
    const Verdict found = verdict(workload, Level::aten, {});
    EXPECT_FALSE(found.agreed) << "wrong by " << wrong;
    EXPECT_FALSE(found.words.empty());
  }
}

TEST(WorkloadCheck, AllowsLibTorchToSumLongColumnsRowByRow) {
  const OpShape tall{.op = "layer_norm", .rows = 100'000, .width = 8, .bias = true};
  const Verdict found = verdict(make_workload(tall, at::kFloat, at::kCPU), Level::aten, {});
  EXPECT_TRUE(found.agreed) << found.words;
}

TEST(WorkloadCheck, SaysHowALevelRefuses) {
  const Workload workload = make_workload({.op = "swiglu", .rows = 4, .width = 8}, at::kFloat, at::kCPU);
  const Verdict found = verdict(workload, Level::cuda, {});
  EXPECT_FALSE(found.agreed);
  EXPECT_EQ(found.words.substr(0, 39), "swiglu has no kernel at level cuda on c") << found.words;
}

INSTANTIATE_TEST_SUITE_P(Ops, WorkloadCheck, testing::ValuesIn(one_of_each()),
                         [](const auto& info) { return info.param.op + (info.param.weighted ? "_weighted" : ""); });

TEST(OpShape, WorkIsWhatMustBeDoneOnce) {
  const OpShape norm{.op = "rms_norm", .rows = 16384, .width = 4096};
  EXPECT_EQ(text(norm), "16384x4096");
  EXPECT_EQ(forward_work(norm, 2).bytes, 2.0 * 16384 * 4096 * 2 + 4096 * 2 + 16384 * 4);
  EXPECT_EQ(backward_work(norm, 2).bytes, 3.0 * 16384 * 4096 * 2 + 2 * 4096 * 2 + 16384 * 4);
  const OpShape swiglu{.op = "swiglu", .rows = 10, .width = 100};
  EXPECT_EQ(forward_work(swiglu, 2).bytes, 3.0 * 10 * 100 * 2);
  EXPECT_EQ(backward_work(swiglu, 2).bytes, 5.0 * 10 * 100 * 2);
  const OpShape linear{.op = "linear", .rows = 64, .width = 8, .outputs = 16};
  EXPECT_EQ(forward_work(linear, 2).flops, 2.0 * 64 * 8 * 16);
  EXPECT_EQ(backward_work(linear, 2).flops, 4.0 * 64 * 8 * 16);
  const OpShape attention{.op = "attention", .rows = 8, .width = 4, .positions = 4, .heads = 2, .key_value_heads = 1};
  EXPECT_EQ(text(attention), "2x4 positions, 2/1 heads of 4, causal");
  EXPECT_EQ(forward_work(attention, 2).flops, 4.0 * 2 * (1 + 2 + 3 + 4) * 2 * 4);
  EXPECT_EQ(backward_work(attention, 2).flops, 2.5 * forward_work(attention, 2).flops);
  const OpShape head{.op = "linear_cross_entropy", .rows = 64, .width = 8, .outputs = 16};
  EXPECT_EQ(text(head), "64x8->16");
  EXPECT_EQ(forward_work(head, 2).flops, 6.0 * 64 * 8 * 16);
  const OpShape graph{.op = "neighbor_aggregate", .rows = 10, .width = 8, .edges = 40, .reduction = Reduction::max};
  EXPECT_EQ(text(graph), "10x8, 40 edges max");
  EXPECT_EQ(forward_work(graph, 2).bytes, 2.0 * 10 * 8 * 2 + 40 * 4 + 10 * 8 + 10 * 8 * 4);
  EXPECT_EQ(forward_work(graph, 2).flops, 2.0 * 40 * 8);
  const OpShape sparse{
      .op = "neighbor_aggregate", .rows = 10, .width = 8, .edges = 40, .sources = 30, .weighted = true};
  EXPECT_EQ(text(sparse), "10x8 from 30, 40 weighted edges sum");
  EXPECT_EQ(forward_work(sparse, 2).bytes, (10.0 + 30) * 8 * 2 + 40 * (4 + 4) + 10 * 8);
  const OpShape heads{.op = "neighbor_attention", .rows = 10, .width = 8, .heads = 2, .edges = 40, .sources = 30};
  EXPECT_EQ(text(heads), "10x2x8 from 30, 40 edges");
  EXPECT_EQ(forward_work(heads, 2).bytes, (10.0 + 30) * 16 * 2 + 40 * 4 + 10 * 8 + (2 * 10 + 30) * 2 * 4);
  EXPECT_EQ(forward_work({.op = "adamw", .rows = 1, .width = 10}, 2).bytes, 280);
  EXPECT_EQ(adamw_work(10, /*gradient=*/4, /*compute_copy=*/0).bytes, 280);
}

}  // namespace
}  // namespace strata::kernels
