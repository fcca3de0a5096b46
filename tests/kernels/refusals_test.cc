// SPDX-License-Identifier: MIT
// Checks the errors of ops, in one sentence each: empty slots, wrong shapes, dtypes and numbers.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "kernels/activation/activation.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/level_matrix.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/op_proofs.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rotary/rotary.h"
#include "kernels/sum_of_squares/sum_of_squares.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

constexpr auto A = Level::aten;

Tensor zeros(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) { return at::zeros(sizes, dtype); }

Tensor elsewhere(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) {
  return at::zeros(sizes, at::TensorOptions(dtype).device(at::kMeta));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

void step(const Tensor& gradient, const Tensor& scalar) {
  Tensor master = zeros({4}), first = zeros({4}), second = zeros({4}), copy;
  adamw(master, first, second, gradient, copy, {scalar, scalar, scalar, scalar}, {0.9, 0.95, 1e-8, 0.1}, A);
}

struct Refusal {
  std::function<void()> call;
  std::string sentence;
};

class Refusals : public testing::Test {
 protected:
  // Each sentence has op, level, what came and what was expected.
  static void expect(const std::vector<Refusal>& refusals) {
    for (const auto& [call, sentence] : refusals) EXPECT_EQ(refusal(call), sentence);
  }

  const Tensor x = zeros({2, 8}), qkv = zeros({1, 4, 24}), table = zeros({4, 1}), scalar = zeros({});
  const Pattern documents = {.kind = Pattern::Kind::documents};
  const Tensor key = zeros({1}, at::kLong), targets = zeros({2}, at::kLong);
  const NeighborGraph graph = NeighborGraph::from_edges(key, key, /*sources=*/2, /*targets=*/3);
};

TEST_F(Refusals, Linear) {
  expect({
      {[&] {
         linear(x, zeros({3, 7}), {}, Activation::none, A);
       },
       "linear/aten: x is [2, 8] and weight is [3, 7], expected x [..., in] and weight [out, in]"},
      {[&] {
         linear(x, zeros({3, 8}, at::kBFloat16), {}, Activation::none, A);
       },
       "linear/aten: x is Float on cpu and weight is BFloat16 on cpu, expected one floating point type on one device"},
      {[&] {
         linear(x, zeros({3, 8}), zeros({4}), Activation::none, A);
       },
       "linear/aten: bias is [4], expected [3]"},
      {[&] {
         linear(x, zeros({3, 8}), {}, Activation::silu, A);
       },
       "linear/aten: activation is silu, expected none, gelu, gelu_tanh or relu"},
  });
}

TEST_F(Refusals, Norms) {
  expect({
      {[&] { rms_norm(x, zeros({7}), 1e-5, Level::torchscript); },
       "rms_norm/torchscript: x is [2, 8] and weight is [7], expected x [..., D] and weight [D]"},
      {[&] {
         add_rms_norm(x, zeros({3, 8}), zeros({8}), 1e-5, A);
       },
       "add_rms_norm/aten: residual is Float [2, 8] on cpu and branch is Float [3, 8] on cpu, expected the same"},
      {[&] { layer_norm(x, zeros({8}), zeros({7}), 1e-5, A); },
       "layer_norm/aten: weight is Float [8] on cpu and bias is Float [7] on cpu, expected the same"},
      {[&] { add_layer_norm(x, x, zeros({8}, at::kDouble), {}, 1e-5, A); },
       "add_layer_norm/aten: x is Float on cpu and weight is Double on cpu, expected one floating point type on one "
       "device"},
      {[&] { layer_norm_gelu_tanh(x, zeros({7}), {}, 1e-5, A); },
       "layer_norm_gelu_tanh/aten: x is [2, 8] and weight is [7], expected x [..., D] and weight [D]"},
  });
}

TEST_F(Refusals, Activations) {
  expect({
      {[&] { activation(zeros({2}, at::kLong), Activation::gelu, A); },
       "activation/aten: x is Long, expected a floating point type"},
      {[&] { activation(x, Activation::none, A); },
       "activation/aten: kind is none, expected gelu, gelu_tanh, relu or silu"},
      {[&] {
         swiglu(zeros({2, 7}), Activation::silu, A);
       },
       "swiglu/aten: gate_up is Float [2, 7], expected floating point [..., 2F]"},
      {[&] { swiglu(x, Activation::relu, A); }, "swiglu/aten: kind is relu, expected silu or gelu_tanh"},
  });
}

TEST_F(Refusals, Rotary) {
  expect({
      {[&] {
         rotary(qkv, zeros({4, 2}), zeros({4, 2}), 4, 4, A);
       },
       "rotary/aten: cosine is Float [4, 2] on cpu, expected Float [4, 1] on cpu"},
      {[&] { rotary(qkv, table, table, 5, 5, A); },
       "rotary/aten: qkv is Float [1, 4, 24], expected floating point [B, T, 15 * D] with an even D"},
      {[&] {
         rms_norm_rotary(qkv, {zeros({2}), zeros({3})}, zeros({4, 1}), zeros({4, 1}), 4, 4, 1e-5, A);
       },
       "rms_norm_rotary/aten: the weight of keys is [3], expected [2]"},
      {[&] {
         rms_norm_rotary(zeros({1, 4, 0}), {zeros({0}), zeros({0})}, zeros({4, 0}), zeros({4, 0}), 4, 4, 1e-5, A);
       },
       "rms_norm_rotary/aten: heads are 0 wide, expected 2 or more"},
      {[&] {
         rms_norm_rotary(qkv, {zeros({2}), zeros({2})}, zeros({4, 2}), zeros({4, 2}), 4, 4, 1e-5, A);
       },
       "rms_norm_rotary/aten: cosine is Float [4, 2] on cpu, expected Float [4, 1] on cpu"},
  });
}

TEST_F(Refusals, Attention) {
  expect({
      {[&] { attention(qkv, 4, 3, {}, {}, A); },
       "attention/aten: heads is 4 and key_value_heads is 3, expected the first to be a multiple of the second"},
      {[&] { attention(qkv, 5, 5, {}, {}, A); },
       "attention/aten: qkv is Float [1, 4, 24], expected floating point [B, T, 15 * D]"},
      {[&] { attention(qkv, 2, 2, {documents}, {}, A); },
       "attention/aten: document_offsets are not given, and the pattern documents has documents"},
      {[&] {
         attention(qkv, 2, 2, {{}, at::arange(2, at::kInt)}, {}, A);
       },
       "attention/aten: document_offsets are given, and the pattern full has no documents"},
      {[&] {
         attention(qkv, 2, 2, {documents, zeros({2})}, {}, A);
       },
       "attention/aten: document_offsets are Float [2] on cpu, expected contiguous Int [documents + 1] on cpu"},
      {[&] {
         attention(zeros({2, 4, 24}), 2, 2, {documents, at::full({2}, 8, at::kInt).mul(at::arange(2, at::kInt))}, {},
                   A);
       },
       "attention/aten: document_offsets go from 0 to 8, expected ascending numbers that include the start of "
       "every row, each multiple of 4"},
      {[&] {
         attention(qkv, 2, 2, {documents, at::arange(3, at::kInt)}, {}, A);
       },
       "attention/aten: document_offsets go from 0 to 2, expected from 0 to B * T = 4"},
      {[&] { attention(qkv, 2, 2, {}, {.softcap = -1}, A); },
       "attention/aten: softcap is -1, expected 0 or a number from 0.001 to 1e+06"},
      {[&] { attention(qkv, 2, 2, {}, {.softcap = NAN}, A); },
       "attention/aten: softcap is nan, expected 0 or a number from 0.001 to 1e+06"},
      {[&] { attention(qkv, 2, 2, {}, {.sinks = zeros({3})}, A); }, "attention/aten: sinks are [3], expected [2]"},
      {[&] { attention(qkv, 2, 2, {}, {.sinks = zeros({2}, at::kHalf)}, A); },
       "attention/aten: qkv is Float on cpu and sinks is Half on cpu, expected one floating point type on one device"},
      {[&] {
         attention_of_part(zeros({1, 2, 15}), {zeros({1, 4, 16}), 0}, 2, 2, {}, {}, A);
       },
       "attention/aten: query is Float [1, 2, 15], expected floating point [B, Q, 2 * D] with a query or more"},
      {[&] {
         attention_of_part(zeros({1, 2, 8}), {zeros({1, 4, 8}), 0}, 2, 2, {}, {}, A);
       },
       "attention/aten: key_value is [1, 4, 8], expected [1, T, 16]"},
      {[&] {
         attention_of_part(zeros({1, 2, 8}), {zeros({1, 4, 16}), 3}, 2, 2, {}, {}, A);
       },
       "attention/aten: queries are the positions 3 to 4, expected positions of the 4 keys"},
  });
}

TEST_F(Refusals, EmbeddingAndDropout) {
  expect({
      {[&] {
         embedding(x, zeros({5, 2}), A);
       },
       "embedding/aten: indices are Float on cpu, expected Long on cpu like weight"},
      {[&] { embedding(key, zeros({5}), A); }, "embedding/aten: weight is Float [5], expected floating point [V, D]"},
      {[&] {
         embedding(at::full({2}, 5, at::kLong), zeros({5, 2}), Level::aot_inductor);
       },
       "embedding/aot_inductor: indices go from 5 to 5, expected from 0 to 4"},
      {[&] { dropout(x, 1.0, key, 0, 0, A); }, "dropout/aten: probability is 1, expected 0 <= p < 1"},
      {[&] { dropout(x, 0.5, x, 0, 0, A); }, "dropout/aten: key is Float [2, 8] on cpu, expected Long [1] on cpu"},
  });
}

TEST_F(Refusals, Losses) {
  expect({
      {[&] { cross_entropy(x, zeros({3}, at::kLong), scalar, -100, 0, A); },
       "cross_entropy/aten: targets are Long [3] on cpu, expected Long [2] on cpu"},
      {[&] { cross_entropy(x, targets, zeros({1}), -100, 0, A); },
       "cross_entropy/aten: scale is Float [1] on cpu, expected Float [] on cpu"},
      {[&] { cross_entropy(x, targets, scalar, -100, 1.5, A); },
       "cross_entropy/aten: label_smoothing is 1.5, expected 0 <= a < 1"},
      {[&] {
         linear_cross_entropy(x, zeros({3, 7}), targets, scalar, -100, 0, 0, A);
       },
       "linear_cross_entropy/aten: hidden is [2, 8] and weight is [3, 7], expected [N, in] and [V, in]"},
      {[&] {
         linear_cross_entropy(x, zeros({3, 8}), key, scalar, -100, 0, 0, A);
       },
       "linear_cross_entropy/aten: targets are Long [1] on cpu, expected Long [2] on cpu"},
      {[&] {
         linear_cross_entropy(x, zeros({3, 8}), targets, scalar, -100, 0, -1, A);
       },
       "linear_cross_entropy/aten: softcap is -1, expected 0 or a positive number"},
  });
}

TEST_F(Refusals, Updates) {
  expect({
      {[&] { step(zeros({5}), scalar); },
       "adamw/aten: gradient is Float [5] on cpu, expected floating point [4] on cpu"},
      {[&] { step(zeros({4}), zeros({1})); },
       "adamw/aten: learning_rate is Float [1] on cpu, expected Float [] on cpu"},
      {[&] { sum_of_squares({}, A); }, "sum_of_squares/aten: no gradients, expected at least one"},
      {[&] {
         sum_of_squares({x, zeros({2}, at::kBFloat16)}, A);
       },
       "sum_of_squares/aten: gradient 0 is Float on cpu and another is BFloat16 on cpu, expected one floating point "
       "type on one device"},
  });
}

TEST_F(Refusals, Graphs) {
  expect({
      {[&] {
         neighbor_aggregate(zeros({3, 8}), graph, {}, Reduction::sum, A);
       },
       "neighbor_aggregate/aten: x is Float [3, 8], expected floating point [2, features], a row for each source of "
       "the graph"},
      {[&] { neighbor_aggregate(x.to(at::kLong), graph, {}, Reduction::mean, A); },
       "neighbor_aggregate/aten: x is Long [2, 8], expected floating point [2, features], a row for each source of "
       "the graph"},
      {[&] { neighbor_aggregate(x, graph, zeros({2}), Reduction::max, A); },
       "neighbor_aggregate/aten: edge_weight is Float [2] on cpu, expected Float or the type of x, Float, [1] on cpu"},
      {[&] { neighbor_aggregate(x, graph, zeros({1}, at::kHalf), Reduction::sum, Level::torchscript); },
       "neighbor_aggregate/torchscript: edge_weight is Half [1] on cpu, expected Float or the type of x, Float, [1] on "
       "cpu"},
      {[&] {
         neighbor_attention(x, zeros({2, 4}), zeros({3, 4}), graph, 0.2, A);
       },
       "neighbor_attention/aten: x is Float [2, 8], expected floating point [2, heads, features], a row for each "
       "source of the graph"},
      {[&] {
         neighbor_attention(x.view({2, 4, 2}), zeros({2, 4}), zeros({2, 4}), graph, 0.2, A);
       },
       "neighbor_attention/aten: score_target is Float [2, 4] on cpu, expected Float or the type of x, Float, [3, 4] "
       "on cpu"},
  });
}

TEST_F(Refusals, TensorsOnTwoDevices) {
  expect({
      {[&] {
         linear(x, elsewhere({3, 8}), {}, Activation::none, A);
       },
       "linear/aten: x is Float on cpu and weight is Float on meta, expected one floating point type on one device"},
      {[&] { rms_norm(x, elsewhere({8}), 1e-5, A); },
       "rms_norm/aten: x is Float on cpu and weight is Float on meta, expected one floating point type on one device"},
      {[&] {
         add_rms_norm(x, elsewhere({2, 8}), zeros({8}), 1e-5, A);
       },
       "add_rms_norm/aten: residual is Float [2, 8] on cpu and branch is Float [2, 8] on meta, expected the same"},
      {[&] { layer_norm(x, elsewhere({8}), {}, 1e-5, A); },
       "layer_norm/aten: x is Float on cpu and weight is Float on meta, expected one floating point type on one "
       "device"},
      {[&] {
         rotary(qkv, elsewhere({4, 1}), elsewhere({4, 1}), 4, 4, A);
       },
       "rotary/aten: cosine is Float [4, 1] on meta, expected Float [4, 1] on cpu"},
      {[&] {
         rms_norm_rotary(qkv, {elsewhere({2}), zeros({2})}, zeros({4, 1}), zeros({4, 1}), 4, 4, 1e-5, A);
       },
       "rms_norm_rotary/aten: qkv is Float on cpu and the weight of queries is Float on meta, expected one floating "
       "point type on one device"},
      {[&] {
         embedding(elsewhere({2}, at::kLong), zeros({5, 2}), A);
       },
       "embedding/aten: indices are Long on meta, expected Long on cpu like weight"},
      {[&] { dropout(x, 0.5, elsewhere({1}, at::kLong), 0, 0, A); },
       "dropout/aten: key is Long [1] on meta, expected Long [1] on cpu"},
      {[&] { neighbor_aggregate(x, graph.to(at::kMeta), {}, Reduction::sum, A); },
       "neighbor_aggregate/aten: x is on cpu and the graph on meta, expected one device"},
      {[&] { cross_entropy(x, elsewhere({2}, at::kLong), scalar, -100, 0, A); },
       "cross_entropy/aten: targets are Long [2] on meta, expected Long [2] on cpu"},
      {[&] { step(elsewhere({4}), scalar); },
       "adamw/aten: gradient is Float [4] on meta, expected floating point [4] on cpu"},
      {[&] {
         sum_of_squares({x, elsewhere({2})}, A);
       },
       "sum_of_squares/aten: gradient 0 is Float on cpu and another is Float on meta, expected one floating point type "
       "on one device"},
  });
}

TEST_F(Refusals, DevicesWithoutLevels) {
  expect({
      {[&] { activation(elsewhere({2}), Activation::gelu, A); },
       "activation has no kernel at level aten on meta (ops run on cpu and cuda); levels there: none"},
      {[&] {
         swiglu(elsewhere({2, 8}), Activation::silu, A);
       },
       "swiglu has no kernel at level aten on meta (ops run on cpu and cuda); levels there: none"},
      {[&] {
         attention(elsewhere({1, 4, 24}), 4, 2, {}, {}, A);
       },
       "attention has no kernel at level aten on meta (ops run on cpu and cuda); levels there: none"},
  });
}

TEST_F(Refusals, AnEmptySlotSaysWhyAndWhatExists) {
  EXPECT_EQ(refusal([] {
              attention(zeros({1, 4, 24}), 4, 2, {}, {}, Level::aot_inductor);
            }),
            "attention has no kernel at level aot_inductor on cpu (FlexAttention has no backward for CPUs); levels "
            "there: aten, torchscript");
  EXPECT_EQ(refusal([] {
              swiglu(zeros({2, 8}), Activation::silu, Level::triton);
            }),
            "swiglu has no kernel at level triton on cpu (this level is GPU code); levels there: aten, "
            "torchscript, aot_inductor");
  EXPECT_EQ(refusal([] {
              rms_norm(zeros({2, 8}), zeros({8}), 1e-5, Level::cuda);
            }),
            "rms_norm has no kernel at level cuda on cpu (this level is GPU code); levels there: aten, torchscript, "
            "aot_inductor");
}

TEST(LevelMatrix, HasEveryOpLevelAndDeviceWithAReasonForEveryHole) {
  const std::vector<LevelRow> rows = level_matrix();
  size_t ops = 0;
  std::set<std::string> differentiable;
  for (const OpProof& proof : op_proofs()) ops += proof.tolerances.size();
  for (const OpCase& op_case : op_cases()) {
    if (op_case.differentiable) differentiable.insert(op_case.op());
  }
  EXPECT_EQ(rows.size(), ops * 5u * 2u);
  for (const LevelRow& row : rows) {
    SCOPED_TRACE(std::string(row.op) + "/" + std::string(name(row.level)));
    EXPECT_EQ(row.reason.empty(), row.forward && row.backward);
    EXPECT_TRUE(row.forward || (row.level != Level::aten && row.level != Level::torchscript));
    EXPECT_EQ(row.backward, row.forward && differentiable.contains(std::string(row.op)));
  }
}

// A level is checked for the key of `kernels:`, which is the name of one of the ops that it covers.
TEST(LevelMatrix, OpsOfOneKeyHaveTheSameLevels) {
  using Levels = std::set<std::tuple<Level, c10::DeviceType, std::string>>;
  std::map<std::string, Levels> levels;
  for (const LevelRow& row : level_matrix()) {
    if (row.forward) levels[std::string(row.op)].emplace(row.level, row.device, to_text(row.gpus));
  }
  std::set<std::string> ops;
  for (const OpProof& proof : op_proofs()) {
    for (const OpShape& shape : proof.small_shapes) {
      ops.emplace(shape.op());
      EXPECT_EQ(levels.at(std::string(shape.op())), levels.at(std::string(shape.key()))) << shape.op();
    }
  }
  EXPECT_EQ(ops.size(), levels.size());
}

}  // namespace
}  // namespace strata::kernels
