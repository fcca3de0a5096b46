// SPDX-License-Identifier: MIT
// Layers of one op, whose outputs or gradients are not finite at a place that is known.
#include "tools/replay/nonfinite_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runtime/gradient_destination.h"
#include "sharding/communication/local_communicator.h"

namespace strata::tools {
namespace {

using at::Tensor;
using Function = std::function<Tensor(const Tensor& x, const Tensor& weight)>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Runs the layers one after another on `input`, with a weight of equal values for each, and the sum as loss.
std::optional<NonfiniteSearch::Found> found_in(const std::vector<Function>& functions, const Tensor& input,
                                               double loss_factor = 1, bool input_needs_gradient = true,
                                               float weight_value = 1) {
  sharding::LocalCommunicator alone;
  std::vector<std::unique_ptr<sharding::ShardedParameterGroup>> groups;
  std::vector<sharding::ShardedParameterGroup*> in_order;
  std::vector<std::string> names;
  for (size_t i = 0; i < functions.size(); ++i) {
    names.push_back("layers." + std::to_string(i));
    const sharding::FlatLayout layout({{.name = names.back() + ".weight", .shape = input.sizes().vec()}}, 1);
    groups.push_back(std::make_unique<sharding::ShardedParameterGroup>(
        sharding::ShardedParameterGroup::Options{.name = names.back(), .precision = {}}, layout, alone, alone, nullptr,
        nullptr));
    sharding::ShardedParameterGroup* group = groups.back().get();
    group->master().fill_(weight_value);
    kernels::set_gradient_destination(group->parameters()[0], [group] {
      const auto [into, add] = group->take_gradient_destination(0);
      return kernels::GradientDestination{into, add};
    });
    in_order.push_back(group);
  }
  NonfiniteSearch search(names);
  modules::ResidualStream stream{input.clone().requires_grad_(input_needs_gradient), {}};
  search.arm();
  search.begin(in_order, /*amax=*/{});
  for (size_t i = 0; i < functions.size(); ++i) {
    const Tensor& weight = in_order[i]->parameters()[0];
    stream = search.wrap_layer(
        static_cast<int64_t>(i),
        [&, i](const modules::ResidualStream& in, const modules::StepContext&) -> modules::ResidualStream {
          return {functions[i](in.residual, kernels::with_gradient_destination(weight)), {}};
        })(stream, {});
  }
  (stream.residual.sum() * loss_factor).backward();
  search.after_backward();
  for (const auto* group : in_order) search.gradients(*group);
  search.end();
  for (const auto* group : in_order) kernels::clear_gradient_destination(group->parameters()[0]);
  return search.found();
}

Tensor product(const Tensor& x, const Tensor& weight) { return x * weight; }
// Its gradient is infinite where the product is 0.
Tensor root(const Tensor& x, const Tensor& weight) { return at::sqrt(x * weight); }
Tensor quotient(const Tensor& x, const Tensor& weight) { return weight / x; }

TEST(NonfiniteSearch, FindsNothingIfAllIsFinite) {
  EXPECT_FALSE(found_in({product, root}, at::ones({3}) * 4).has_value());
}

TEST(NonfiniteSearch, NamesTheLayerOfAnOutput) {
  const auto found = found_in({product, quotient, product}, at::zeros({3}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->place, "micro-batch 0, layer 1 (layers.1), forward");
  EXPECT_EQ(found->op, "forward aten::div");
  ASSERT_TRUE(found->layer.has_value());
  EXPECT_FALSE(found->layer->backward);
  EXPECT_TRUE(found->layer->tensors.at("weight.layers.1.weight").equal(at::ones({3})));
  EXPECT_TRUE(found->layer->tensors.at("input.residual").equal(at::zeros({3})));
  EXPECT_TRUE(found->layer->tensors.at("output_gradient.residual").equal(at::ones({3})));
  EXPECT_EQ(found->layer->seen.at("output.residual").facts.infinite, 3);
}

TEST(NonfiniteSearch, NamesTheLayerOfAGradientWhoseOutputIsFinite) {
  for (const bool input_needs_gradient : {true, false}) {
    const auto found = found_in({root, product, product}, at::zeros({3}), 2, input_needs_gradient);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->place, "micro-batch 0, layer 0 (layers.0), backward");
    EXPECT_EQ(found->op, "backward aten::div");
    ASSERT_TRUE(found->layer.has_value());
    EXPECT_TRUE(found->layer->backward);
    EXPECT_TRUE(found->layer->tensors.at("output_gradient.residual").equal(at::full({3}, 2.0)));
    EXPECT_EQ(found->layer->seen.contains("input_gradient.residual"), input_needs_gradient);
    EXPECT_FALSE(found->layer->seen.at("weight_gradient.layers.0.weight").facts.finite());
  }
}

TEST(NonfiniteSearch, SavesNoLayerIfItsInputsAreNotFinite) {
  const auto before = found_in({product}, at::full({3}, kInfinity));
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->place, "micro-batch 0, outside of the layers, before layer 0, forward");
  EXPECT_FALSE(before->layer.has_value());
  const auto after = found_in({product, product}, at::ones({3}), kInfinity);
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->place, "micro-batch 0, outside of the layers, after layer 1, forward of the loss or its backward");
  EXPECT_FALSE(after->layer.has_value());
}

TEST(NonfiniteSearch, NamesAWeightThatIsNotFiniteItself) {
  const auto found = found_in({product}, at::ones({3}), 1, true, kInfinity);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->place, "micro-batch 0, layer 0 (layers.0), forward, whose layers.0.weight is not finite");
  EXPECT_EQ(found->op, "");
}

TEST(OpCheck, AnOpThatIsToldToWriteSuchAValueDoesNotMakeIt) {
  OpCheck ops;
  ops.begin();
  const Tensor mask = at::zeros({2}).fill_(-kInfinity);
  EXPECT_EQ(ops.first_maker(), "");
  const Tensor spread = mask * 2;  // infinite, as its input was
  EXPECT_EQ(ops.first_maker(), "");
  const Tensor nan = mask - mask;
  ops.end();
  EXPECT_EQ(ops.first_maker(), "forward aten::sub");
}

TEST(OpCheck, AnOpInPlaceIsJudgedByWhatItRead) {
  OpCheck ops;
  const Tensor values = at::zeros({2});
  ops.begin();
  values.log_();
  ops.end();
  ASSERT_EQ(ops.ops().size(), 1U);
  EXPECT_TRUE(ops.ops()[0].inputs.finite());
  EXPECT_EQ(ops.ops()[0].outputs.infinite, 2);
  EXPECT_EQ(ops.first_maker(), "forward aten::log_");
}

}  // namespace
}  // namespace strata::tools
