// SPDX-License-Identifier: MIT
// Compares sharded layers, with recomputation inside, to the same layers without sharding.
#include "sharding/parameters/fully_sharded_layers.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernels/linear/linear.h"
#include "kernels/runtime/gradient_destination.h"
#include "modules/recompute.h"
#include "sharding/parameters/device_mesh.h"
#include "tests/sharding/mpi_main.h"

namespace strata::sharding {
namespace {

using modules::Layer;
using modules::ResidualStream;
using modules::StepContext;

constexpr int64_t kLayers = 4, kWidth = 19;  // wide enough that each of 4 ranks holds a part

struct Result {
  std::vector<Tensor> gradients;  // this rank's shard of each layer
  Tensor input_gradient;
};

// Layers y = gelu(x w^T + b) on a stream without a pending branch.
Result run(bool recomputes, bool input_needs_gradient, int micro_batches) {
  const DeviceMesh mesh = make_device_mesh(tests::world(), {.strategy = Strategy::full});
  const FlatLayout layout({{"weight", {kWidth, kWidth}, true}, {"bias", {kWidth}, false}}, mesh.shard->size());
  const auto options = at::dtype(at::kFloat).device(tests::device());
  SlotPool weights(2, layout.elements(), options, /*poison=*/true), gradients(2, layout.elements(), options, true);
  std::vector<std::unique_ptr<ShardedParameterGroup>> groups;
  std::vector<ShardedParameterGroup*> in_order;
  for (int64_t i = 0; i < kLayers; ++i) {
    groups.push_back(std::make_unique<ShardedParameterGroup>(
        ShardedParameterGroup::Options{.name = "layer" + std::to_string(i), .precision = {}, .device = tests::device()},
        layout, *mesh.shard, *mesh.replicate, &weights, &gradients));
    ShardedParameterGroup* group = groups.back().get();
    in_order.push_back(group);
    group->for_each_piece([&](const FlatLayout::Entry&, int64_t parameter_offset, int64_t shard_offset, int64_t count) {
      for (int64_t e = 0; e < count; ++e) {
        const auto place = static_cast<double>(parameter_offset + e + 100 * i);
        group->master().narrow(0, shard_offset + e, 1).fill_(0.3 * std::sin(1.7 * place));
      }
    });
    for (size_t p = 0; p < 2; ++p) {
      kernels::set_gradient_destination(group->parameters()[p], [group, p] {
        const auto [into, add] = group->take_gradient_destination(p);
        return kernels::GradientDestination{into, add};
      });
    }
  }
  FullyShardedLayers layers(in_order, {});
  std::vector<Layer> model;
  for (int64_t i = 0; i < kLayers; ++i) {
    Layer layer = [group = in_order[static_cast<size_t>(i)]](const ResidualStream& stream, const StepContext&) {
      return ResidualStream{kernels::linear(stream.residual, group->parameters()[0], group->parameters()[1],
                                            kernels::Activation::gelu, kernels::Level::aten),
                            {}};
    };
    if (recomputes) layer = modules::recompute(layer);
    layer = [layer, i, &layers](const ResidualStream& stream, const StepContext& context) {
      const auto outputs =
          layers.run(static_cast<size_t>(i), {stream.residual}, [&](const std::vector<Tensor>& inputs) {
            return std::vector<Tensor>{layer({inputs[0], {}}, context).residual};
          });
      return ResidualStream{outputs[0], {}};
    };
    model.push_back(layer);
  }

  Result result;
  for (auto* group : in_order) group->begin_step();
  for (int i = 0; i < micro_batches; ++i) {
    layers.set_last_micro_batch(i + 1 == micro_batches);
    const Tensor input = at::full({5, kWidth}, 0.1 * (i + 1), options).requires_grad_(input_needs_gradient);
    ResidualStream stream{input, {}};
    for (const Layer& layer : model) stream = layer(stream, {});
    stream.residual.square().sum().backward();
    layers.finish_backward();
    result.input_gradient = input.grad();
  }
  for (auto* group : in_order) {
    result.gradients.push_back(group->gradient().clone());
    for (const Tensor& parameter : group->parameters()) kernels::clear_gradient_destination(parameter);
  }
  return result;
}

class FullyShard : public testing::TestWithParam<std::tuple<bool, bool, int>> {};

TEST_P(FullyShard, GivesTheSameBitsWithRecomputation) {
  const auto [recomputes, input_needs_gradient, micro_batches] = GetParam();
  const Result plain = run(/*recomputes=*/false, /*input_needs_gradient=*/true, micro_batches);
  const Result actual = run(recomputes, input_needs_gradient, micro_batches);
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(actual.gradients[i], plain.gradients[i])) << "layer " << i;
    EXPECT_TRUE(plain.gradients[i].isfinite().all().item<bool>());
  }
  EXPECT_GT(plain.gradients[0].abs().max().item<float>() + plain.gradients[3].abs().max().item<float>(), 0);
  ASSERT_EQ(actual.input_gradient.defined(), input_needs_gradient);
  if (input_needs_gradient) {
    EXPECT_TRUE(at::equal(actual.input_gradient, plain.input_gradient));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FullyShard, testing::Combine(testing::Bool(), testing::Bool(), testing::Values(1, 3)));

}  // namespace
}  // namespace strata::sharding
