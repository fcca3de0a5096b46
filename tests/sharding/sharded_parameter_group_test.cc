// SPDX-License-Identifier: MIT
// Checks the order in which a group of hybrid sharding starts its collectives and waits for them. One rank plays all
// ranks.
#include "sharding/parameters/sharded_parameter_group.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata::sharding {
namespace {

using Log = std::vector<std::string>;

// Simulates two ranks with the same tensors: sums are twice the input, and are complete after wait().
class Twins : public Communicator {
 public:
  Twins(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  at::Device device() const override { return at::kCPU; }
  PendingCollective start(const Collective& collective) override {
    if (collective.operation != Operation::reduce_scatter && collective.operation != Operation::all_reduce) return {};
    const auto state = std::make_shared<UnderWay>();
    state->log = &log_;
    state->text = name_ + " of " + collective.label;
    state->finish = [output = collective.output, input = collective.input] {
      output.copy_(input.narrow(0, 0, output.numel()).mul(2));
    };
    log_.push_back(state->text + " starts");
    return PendingCollective(state);
  }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override { return at::zeros({elements}, options); }
  std::unique_ptr<Communicator> split(int) override { return nullptr; }

 private:
  struct UnderWay : PendingCollective::State {
    void wait() override {
      log->push_back(text + " ends");
      finish();
    }
    Log* log = nullptr;
    std::string text;
    std::function<void()> finish;
  };

  const std::string name_;
  Log& log_;
};

struct Way {
  at::ScalarType reduce;
  int micro_batches;
  MicroBatchSum sum;
};

class HybridGroups : public testing::TestWithParam<Way> {};

// With one gradient slot, the backward of b needs the slot of c, so it waits for the sum over shards only.
TEST_P(HybridGroups, ReplicasAreSummedWhileOtherLayersCompute) {
  const auto [reduce, micro_batches, sum] = GetParam();
  const bool keeps = sum == MicroBatchSum::full_gradient;  // each group keeps its full gradients in a slot of its own
  Log log;
  Twins shards("shards", log), replicas("replicas", log);
  const FlatLayout layout({{"weight", {3, 5}, true}}, shards.size());
  const auto slots = [&](at::ScalarType type) {
    return std::make_unique<SlotPool>(1, layout.elements(), at::TensorOptions(type), /*poison=*/true);
  };
  const auto weights = slots(at::kFloat), shared = slots(reduce);
  std::vector<std::unique_ptr<SlotPool>> own;
  std::vector<std::unique_ptr<ShardedParameterGroup>> groups;
  for (const char* name : {"c", "b", "a"}) {  // in the order of the backward
    if (keeps) own.push_back(slots(at::kFloat));
    groups.push_back(std::make_unique<ShardedParameterGroup>(
        ShardedParameterGroup::Options{name, {at::kFloat, reduce}, at::kCPU, sum}, layout, shards, replicas,
        weights.get(), keeps ? own.back().get() : shared.get()));
    groups.back()->begin_step();
  }
  for (int i = 0; i < micro_batches; ++i) {
    for (const auto& group : groups) {
      const auto [into, add] = group->take_gradient_destination(0);
      const int value = i == 0 ? 256 : 1;  // bfloat16 rounds 256 + 1 to 256
      add ? into.add_(value) : into.fill_(value);
      group->start_reduce(/*last_micro_batch=*/i + 1 == micro_batches);
    }
  }
  const Log in_backward = log;
  for (const auto& group : groups) group->wait_for_reduce();

  const auto place = [&](const std::string& text) { return std::find(log.rbegin(), log.rend(), text) - log.rbegin(); };
  for (const char* name : {"c", "b"}) {
    if (keeps) break;
    const std::string replicas_of = std::string("replicas of ") + name;
    EXPECT_EQ(std::count(in_backward.begin(), in_backward.end(), replicas_of + " starts"), 1) << name;
    EXPECT_EQ(std::count(in_backward.begin(), in_backward.end(), replicas_of + " ends"), 0) << name;
    EXPECT_GT(place(std::string("shards of ") + name + " ends"), place(replicas_of + " starts")) << name;
  }
  for (const auto& group : groups) {
    const double expected = 4.0 * (256 + micro_batches - 1);
    group->for_each_piece([&](const FlatLayout::Entry&, int64_t, int64_t shard_offset, int64_t count) {
      const Tensor piece = group->gradient().narrow(0, shard_offset, count);
      EXPECT_TRUE(piece.eq(expected).all().item<bool>()) << group->name() << ": " << piece;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, HybridGroups,
    testing::Values(Way{at::kFloat, 1, MicroBatchSum::none}, Way{at::kFloat, 1, MicroBatchSum::gradient_shard},
                    Way{at::kFloat, 3, MicroBatchSum::gradient_shard}, Way{at::kFloat, 3, MicroBatchSum::full_gradient},
                    Way{at::kBFloat16, 1, MicroBatchSum::none}, Way{at::kBFloat16, 3, MicroBatchSum::gradient_shard},
                    Way{at::kBFloat16, 3, MicroBatchSum::full_gradient}, Way{at::kHalf, 1, MicroBatchSum::none},
                    Way{at::kHalf, 3, MicroBatchSum::gradient_shard}, Way{at::kHalf, 3, MicroBatchSum::full_gradient}));

// LibTorch would write fp32 gradients beyond the end of a slot of bfloat16.
TEST(ShardedParameterGroup, RefusesGradientSlotsOfAnotherType) {
  Log log;
  Twins shards("shards", log), replicas("replicas", log);
  const FlatLayout layout({{"weight", {3, 5}, true}}, shards.size());
  SlotPool weights(1, layout.elements(), at::TensorOptions(at::kFloat)), narrow(1, layout.elements(), at::kBFloat16);
  const auto make = [&](MicroBatchSum sum) {
    ShardedParameterGroup({"head", {at::kFloat, at::kBFloat16}, at::kCPU, sum}, layout, shards, replicas, &weights,
                          &narrow);
  };
  EXPECT_NO_THROW(make(MicroBatchSum::gradient_shard));
  EXPECT_THROW(make(MicroBatchSum::full_gradient), c10::Error);
}

// The group's buffer has zeros for a gradient that went elsewhere, so the weight would never change.
TEST(ShardedParameterGroup, RefusesAGradientThatWentElsewhere) {
  Log log;
  Twins shards("shards", log), replicas("replicas", log);
  const FlatLayout layout({{"scale.weight", {3, 5}, true}, {"bias", {5}, false}}, shards.size());
  SlotPool weights(1, layout.elements(), at::TensorOptions(at::kFloat)), gradients(1, layout.elements(), at::kFloat);
  ShardedParameterGroup group({.name = "blocks.0", .precision = {}}, layout, shards, replicas, &weights, &gradients);
  group.begin_step();
  group.take_gradient_destination(1).into.fill_(1);
  group.parameters()[0].mutable_grad() = at::zeros({3, 5});
  try {
    group.start_reduce(/*last_micro_batch=*/true);
    FAIL() << "a gradient outside of the group counts as zero";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find("scale.weight: its gradient went to .grad()"), std::string::npos) << message;
    EXPECT_NE(message.find("kernels::with_gradient_destination"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace strata::sharding
