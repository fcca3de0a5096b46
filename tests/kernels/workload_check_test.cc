// SPDX-License-Identifier: MIT
// Checks the proof at full size: it accepts right results, part by part, and refuses wrong ones.
#include "kernels/proof/workload_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>

#include "kernels/adamw/adamw_shape.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "kernels/op_proofs.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/swiglu/swiglu_shape.h"

namespace strata::kernels {
namespace {

std::vector<OpShape> small_shapes() {
  std::vector<OpShape> shapes;
  for (const OpProof& proof : op_proofs()) {
    shapes.insert(shapes.end(), proof.small_shapes.begin(), proof.small_shapes.end());
  }
  return shapes;
}

class WorkloadCheck : public testing::TestWithParam<OpShape> {};

TEST_P(WorkloadCheck, AgreesWithWhatIsRight) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Workload workload = make_workload(GetParam(), dtype, at::kCPU);
    for (const Level level : {Level::aten, Level::torchscript}) {
      const Verdict found = verdict(workload, level);
      EXPECT_TRUE(found.agreed) << name(level) << " " << dtype << ": " << found.words;
      EXPECT_LE(found.share, 1);
    }
  }
}

// The parts of the formula together give the whole result.
TEST_P(WorkloadCheck, SplitsRowsWithoutASeam) {
  const Workload workload = make_workload(GetParam(), at::kFloat, at::kCPU);
  for (const auto& [name, agreement] : deviations(workload, Level::aten, /*part_elements=*/100)) {
    EXPECT_TRUE(agreement.agreed()) << name << " " << agreement.words;
  }
}

// The level is wrong in the last of its results: by a factor near 1, or by one number that is NaN.
TEST_P(WorkloadCheck, DoesNotAgreeWithWhatIsWrong) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double factor = 1 + 8 * unit_roundoff(dtype == at::kFloat ? at::kHalf : dtype);
    for (const bool nan : {false, true}) {
      Workload workload = make_workload(GetParam(), dtype, at::kCPU);
      workload.run = [&, run = workload.run](const Inputs& inputs, Level level) {
        std::vector<Tensor> results = run(inputs, level);
        if (level != Level::aten) return results;
        if (nan) {
          results.back() = results.back().clone();
          results.back().detach().flatten()[0].fill_(std::numeric_limits<double>::quiet_NaN());
        } else {
          results.back() = results.back() * factor;
        }
        return results;
      };
      const Verdict found = verdict(workload, Level::aten);
      EXPECT_FALSE(found.agreed) << dtype << (nan ? ": NaN" : ": factor ") << factor;
      EXPECT_FALSE(found.words.empty());
    }
  }
}

TEST(WorkloadCheck, AllowsLibTorchToSumLongColumnsRowByRow) {
  const LayerNormShape tall{.rows = 100'000, .width = 8, .bias = true};
  const Verdict found = verdict(make_workload(tall, at::kFloat, at::kCPU), Level::aten);
  EXPECT_TRUE(found.agreed) << found.words;
}

// The gradients of a row are probabilities of about 1e-5, except for one number near -1.
TEST(WorkloadCheck, DoesNotAgreeIfATileOfAWideRowIsZero) {
  const CrossEntropyShape wide{.rows = 16, .classes = 128256};
  Workload workload = make_workload(wide, at::kBFloat16, at::kCPU);
  EXPECT_TRUE(verdict(workload, Level::aten).agreed);
  workload.run = [run = workload.run](const Inputs& inputs, Level level) {
    if (level != Level::aten) return run(inputs, level);
    const Tensor& logits = inputs.leaves[0];
    Inputs without = inputs;
    without.leaves[0] = at::cat({logits.narrow(1, 0, 128128), logits.narrow(1, 128128, 128).detach()}, 1);
    return run(without, level);
  };
  EXPECT_FALSE(verdict(workload, Level::aten).agreed);
}

// Most gradients are below 2^-14, where numbers of fp16 have fewer bits.
TEST(WorkloadCheck, AllowsTheRoundingOfSmallNumbersOfHalf) {
  const CrossEntropyShape tall{.rows = 30'000, .classes = 300};
  const Workload workload = make_workload(tall, at::kHalf, at::kCPU);
  for (const Level level : {Level::aten, Level::torchscript}) {
    const Verdict found = verdict(workload, level);
    EXPECT_TRUE(found.agreed) << name(level) << ": " << found.words;
  }
}

TEST(WorkloadCheck, DoesNotAgreeWithoutRows) {
  const Verdict found = verdict(make_workload(SwigluShape{.rows = 0, .width = 8}, at::kFloat, at::kCPU), Level::aten);
  EXPECT_FALSE(found.agreed);
  EXPECT_EQ(found.words, "a workload without rows proves nothing");
}

TEST(WorkloadCheck, SaysHowALevelRefuses) {
  const Workload workload = make_workload(SwigluShape{.rows = 4, .width = 8}, at::kFloat, at::kCPU);
  const Verdict found = verdict(workload, Level::cuda);
  EXPECT_FALSE(found.agreed);
  EXPECT_EQ(found.words.substr(0, 39), "swiglu has no kernel at level cuda on c") << found.words;
}

INSTANTIATE_TEST_SUITE_P(Ops, WorkloadCheck, testing::ValuesIn(small_shapes()), [](const auto& info) {
  return std::string(info.param.op()) + "_" + std::to_string(info.index);
});

// An op without shapes would be neither proved at full size nor timed.
TEST(OpProofs, HaveShapesOfEveryOp) {
  const auto ops_of = [](const std::vector<OpShape>& shapes) {
    std::set<std::string> ops;
    for (const OpShape& shape : shapes) ops.emplace(shape.op());
    return ops;
  };
  for (const OpProof& proof : op_proofs()) {
    std::set<std::string> ops;
    for (const Tolerance& tolerance : proof.tolerances) ops.emplace(tolerance.op);
    EXPECT_EQ(ops_of(proof.small_shapes), ops);
    EXPECT_EQ(ops_of(proof.gpu_shapes), ops);
    EXPECT_EQ(ops_of(proof.cpu_shapes), ops);
  }
}

// Their sizes are known by what queries, keys and values take in fp32.
TEST(OpProofs, HaveAttentionOfNamedSizes) {
  std::map<std::string, double> mebibytes;
  for (const auto& [name, shape] : proof_of("attention").named_shapes) {
    const AttentionShape* const s = shape.as<AttentionShape>();
    ASSERT_NE(s, nullptr) << name;
    const double heads = static_cast<double>(s->heads + 2 * s->key_value_heads);
    mebibytes[name] = 4.0 * static_cast<double>(s->batch * s->positions * s->head_width) * heads / (1 << 20);
  }
  EXPECT_EQ(mebibytes, (std::map<std::string, double>{{"small", 6}, {"realistic", 768}}));
}

TEST(OpShape, WorkIsWhatMustBeDoneOnce) {
  const RmsNormShape norm{.rows = 16384, .width = 4096};
  EXPECT_EQ(norm.text(), "16384x4096");
  EXPECT_EQ(norm.forward_work(2).bytes, 2.0 * 16384 * 4096 * 2 + 4096 * 2 + 16384 * 4);
  EXPECT_EQ(norm.backward_work(2).bytes, 3.0 * 16384 * 4096 * 2 + 2 * 4096 * 2 + 16384 * 4);
  const SwigluShape swiglu{.rows = 10, .width = 100};
  EXPECT_EQ(swiglu.forward_work(2).bytes, 3.0 * 10 * 100 * 2);
  EXPECT_EQ(swiglu.backward_work(2).bytes, 5.0 * 10 * 100 * 2);
  const LinearShape linear{.rows = 64, .inputs = 8, .outputs = 16};
  EXPECT_EQ(linear.forward_work(2).flops, 2.0 * 64 * 8 * 16);
  EXPECT_EQ(linear.backward_work(2).flops, 4.0 * 64 * 8 * 16);
  const AttentionShape attention{.batch = 2, .positions = 4, .heads = 2, .key_value_heads = 1, .head_width = 4};
  EXPECT_EQ(attention.text(), "2x4 positions, 2/1 heads of 4, causal");
  EXPECT_EQ(attention.forward_work(2).flops, 4.0 * 2 * (1 + 2 + 3 + 4) * 2 * 4);
  EXPECT_EQ(attention.backward_work(2).flops, 2.5 * attention.forward_work(2).flops);
  const AttentionShape packed{.batch = 2,
                              .positions = 6,
                              .heads = 2,
                              .key_value_heads = 2,
                              .head_width = 4,
                              .pattern = parse_pattern("causal & documents"),
                              .documents = 3};  // three documents of 1, 2 and 3 positions
  EXPECT_EQ(packed.text(), "2x6 positions, 2 heads of 4, causal & documents, 3 documents");
  EXPECT_EQ(packed.forward_work(2).flops, 4.0 * 2 * (1 + (1 + 2) + (1 + 2 + 3)) * 2 * 4);
  const LinearCrossEntropyShape head{.rows = 64, .inputs = 8, .classes = 16};
  EXPECT_EQ(head.text(), "64x8->16");
  EXPECT_EQ(head.forward_work(2).flops, 6.0 * 64 * 8 * 16);
  const NeighborAggregateShape graph{
      .targets = 10, .sources = 10, .width = 8, .edges = 40, .reduction = Reduction::max};
  EXPECT_EQ(graph.text(), "10x8, 40 edges max");
  EXPECT_EQ(graph.forward_work(2).bytes, 2.0 * 10 * 8 * 2 + 40 * 4 + 10 * 8 + 10 * 8 * 4);
  EXPECT_EQ(graph.forward_work(2).flops, 2.0 * 40 * 8);
  const NeighborAggregateShape sparse{.targets = 10, .sources = 30, .width = 8, .edges = 40, .weighted = true};
  EXPECT_EQ(sparse.text(), "10x8 from 30, 40 weighted edges sum");
  EXPECT_EQ(sparse.forward_work(2).bytes, (10.0 + 30) * 8 * 2 + 40 * (4 + 4) + 10 * 8);
  const NeighborAttentionShape heads{.targets = 10, .sources = 30, .heads = 2, .head_width = 8, .edges = 40};
  EXPECT_EQ(heads.text(), "10x2x8 from 30, 40 edges");
  EXPECT_EQ(heads.forward_work(2).bytes, (10.0 + 30) * 16 * 2 + 40 * 4 + 10 * 8 + (2 * 10 + 30) * 2 * 4);
  EXPECT_EQ(AdamwShape{.elements = 10}.forward_work(2).bytes, 280);
  EXPECT_EQ(adamw_work(10, /*gradient_bytes=*/4, /*copy_bytes=*/0).bytes, 280);
}

}  // namespace
}  // namespace strata::kernels
