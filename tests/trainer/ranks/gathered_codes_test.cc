// SPDX-License-Identifier: MIT
// Weights that travel as codes of 8 bits: losses and gradients have the bits of a run whose weights travel in
// precision.compute, memory is what is predicted, and a scale of the own shard alone shows.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sharding/mpi_main.h"
#include "tests/trainer/ranks/sharded_gradients.h"
#include "trainer/layout/coding.h"
#include "trainer/prediction/memory_estimate.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

using tests::session;

// What passes through the communicators of a run. It may keep the largest magnitudes of other ranks back.
struct Traffic {
  std::map<std::string, int64_t> gathered;  // bytes, by name of the group and type
  bool hides_magnitudes = false;
};

class Watched : public sharding::Communicator {
 public:
  Watched(sharding::Communicator& inner, Traffic& traffic) : inner_(&inner), traffic_(traffic) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }
  sharding::PendingCollective start(const sharding::Collective& collective) override {
    if (collective.operation == sharding::Operation::all_gather) {
      const std::string type = c10::toString(collective.output.scalar_type());
      traffic_.gathered[collective.label + " " + type] += static_cast<int64_t>(collective.output.nbytes());
    }
    if (traffic_.hides_magnitudes && collective.label == "scales of weights") return {};
    return inner_->start(collective);
  }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override {
    return inner_->gather_buffer(elements, options);
  }
  std::unique_ptr<sharding::Communicator> split(int color) override {
    auto part = std::make_unique<Watched>(*inner_, traffic_);
    part->owned_ = inner_->split(color);
    part->inner_ = part->owned_.get();
    return part;
  }

 private:
  sharding::Communicator* inner_;
  std::unique_ptr<sharding::Communicator> owned_;
  Traffic& traffic_;
};

Overrides with(Overrides overrides, const Overrides& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

Result result_of(const Overrides& overrides, Traffic& traffic) {
  Watched world(tests::world(), traffic);
  return gradients_of(config_for(overrides, session().ranks()), world);
}

// A step of one micro-batch. On a GPU products are those of FP8 tensor cores, which want multiples of 16.
Overrides model() {
  const std::string batch = "batch=" + std::to_string(2 * session().ranks());
  if (!tests::device().is_cuda()) return {batch, "model.layers=3"};
  return {batch,
          "model.layers=3",
          "model.width=48",
          "model.feed_forward=96",
          "model.key_value_heads=3",
          "kernels.linear=cuda",
          "precision.compute=bfloat16"};
}

Overrides in_fp8(const Overrides& more) {
  return with(with(model(), {"precision.linear={format: fp8}", "sharding.gather_format=codes"}), more);
}

const Overrides kInCompute = {"sharding.gather_format=compute"};

std::string halves() { return "sharding.shard_ranks=" + std::to_string(session().ranks() % 2 == 0 ? 2 : 1); }

TEST(GatheredCodes, GiveTheBitsOfGatheredValues) {
  for (const Overrides& way :
       std::vector<Overrides>{{"sharding.strategy=none"},
                              {"sharding.strategy=full"},
                              {"sharding.strategy=full", "sharding.prefetch=0"},
                              {"sharding.strategy=full", "sharding.prefetch=3"},
                              {"sharding.reshard_after_forward=false"},
                              {"sharding.accumulate=full", two_micro_batches()},
                              {two_micro_batches()},
                              {"sharding.strategy=hybrid", halves()},
                              {"gradient_checkpointing=full"},
                              {"gradient_checkpointing=selective"},
                              {"precision.compute=bfloat16"},
                              {"precision.compute=bfloat16", "precision.reduce=bfloat16"},
                              {"precision.compute=bfloat16", "precision.layers=[{only: 1, compute: float32}]"},
                              {"precision.linear.keep=[first, mlp.down]"},
                              {"model.family=gpt2", "model.feed_forward=0", "model.key_value_heads=0"}}) {
    SCOPED_TRACE(way[0] + " " + way.back());
    expect_same_bits(on_all_ranks(in_fp8(way)), on_all_ranks(in_fp8(with(way, kInCompute))));
  }
  if (tests::device().is_cuda()) return;
  const Overrides images = vision(in_fp8({}));
  expect_same_bits(on_all_ranks(images), on_all_ranks(with(images, kInCompute)));
}

// The products are others than without a format, so the comparison above compares something.
TEST(GatheredCodes, AreThoseOfRoundedWeights) { EXPECT_NE(on_all_ranks(in_fp8({})).loss, on_all_ranks(model()).loss); }

TEST(GatheredCodes, TakeHalfOfTheBytes) {
  if (session().ranks() == 1) GTEST_SKIP() << "a single rank gathers nothing";
  const Overrides overrides = in_fp8({"precision.compute=bfloat16"});
  Traffic codes, values;
  result_of(overrides, codes);
  result_of(with(overrides, kInCompute), values);
  const TrainerConfig config = config_for(overrides, session().ranks());
  int64_t layers = 0, weights = 0;
  for (const modules::ParameterGroup& group : declared_model(config).groups) {
    const auto layout = coded_layout(buffer_rules(config), group);
    EXPECT_EQ(layout.has_value(), group.role == modules::Role::layer) << group.name;
    const int64_t before = values.gathered.at(group.name + " BFloat16");
    if (!layout) {
      EXPECT_EQ(codes.gathered.at(group.name + " BFloat16"), before);
      continue;
    }
    ++layers;
    weights += layout->coded_entries();
    EXPECT_EQ(2 * codes.gathered.at(group.name + " Byte"), before) << group.name;
    EXPECT_LT(codes.gathered.at(group.name + " BFloat16"), before / 4) << group.name;
  }
  EXPECT_EQ(layers, 3);
  EXPECT_EQ(weights, 12);
}

TEST(GatheredCodes, AScaleOfTheOwnShardShows) {
  if (session().ranks() == 1) GTEST_SKIP() << "a single rank has all weights";
  Traffic all, own;
  own.hides_magnitudes = true;
  const Overrides overrides = in_fp8({});
  const Result expected = result_of(overrides, all), wrong = result_of(overrides, own);
  expect_same_bits(expected, on_all_ranks(overrides));
  EXPECT_NE(wrong.loss, expected.loss);
  EXPECT_FALSE(
      at::equal(wrong.gradients.at("blocks.0.mlp.down.weight"), expected.gradients.at("blocks.0.mlp.down.weight")));
}

TEST(GatheredCodes, WhatCannotTravelAsCodesTravelsAsBefore) {
  const std::string nothing = "warning: sharding.gather_format: codes changes nothing: ",
                    end = "; leave it out, or see docs/formats.md\n",
                    alone = nothing + "each rank has all parameters, so none are gathered" + end,
                    travels = ", and only fp8 with scaling: current travels so" + end;
  const auto report = [](const TrainerConfig& config) {
    return coding_report(buffer_rules(config), declared_model(config).groups);
  };
  const bool is_alone = session().ranks() == 1;
  for (const auto& [way, line] : std::vector<std::pair<std::string, std::string>>{
           {"precision.linear={format: fp8, scaling: row}", nothing + "precision.linear is fp8 row" + travels},
           {"precision.linear={format: fp8, scaling: delayed}", nothing + "precision.linear is fp8 delayed" + travels},
           {"precision.linear={format: none}", nothing + "precision.linear is none" + travels},
           {"sharding.strategy=none", alone},
           {"sharding.gather_format=compute", ""}}) {
    const TrainerConfig config = config_for(in_fp8({way}), session().ranks());
    EXPECT_EQ(coded_weights(buffer_rules(config), declared_model(config).groups), 0) << way;
    EXPECT_EQ(report(config), is_alone && !line.empty() ? alone : line) << way;
  }
  const TrainerConfig some = config_for(in_fp8({"precision.linear.only=blocks.1-2"}), session().ranks());
  EXPECT_EQ(coded_weights(buffer_rules(some), declared_model(some).groups), session().ranks() == 1 ? 0 : 8);
  // So much of a layer stays in precision.compute that codes would make the slot larger.
  const Overrides most = in_fp8({"precision.linear.keep=[attention, mlp.gate_up]", "precision.compute=bfloat16"});
  const TrainerConfig little = config_for(most, session().ranks());
  EXPECT_EQ(coded_weights(buffer_rules(little), declared_model(little).groups), 0);
  const std::string few = nothing + "too few weights of each layer are in fp8 for codes to save anything" + end;
  EXPECT_EQ(report(little), is_alone ? alone : few);
}

TEST(GatheredCodes, TakeTheMemoryThatIsPredicted) {
  for (const Overrides& way : std::vector<Overrides>{{"precision.compute=bfloat16"},
                                                     {"precision.compute=float32"},
                                                     {"precision.linear.keep=[first]"},
                                                     {"sharding.reshard_after_forward=false"}}) {
    const auto predicted = [](const Overrides& overrides) {
      const TrainerConfig config = config_for(overrides, session().ranks());
      const auto [groups, modules] = declared_model(config);
      int64_t sum = 0;
      for (const MemoryClass& kind : memory_per_rank(buffer_rules(config), config.optimizer, groups, modules)) {
        if (kind.name.find("moments") == std::string::npos) sum += kind.bytes;
      }
      return sum;
    };
    const Overrides overrides = in_fp8(way);
    EXPECT_EQ(on_all_ranks(overrides).bytes, predicted(overrides)) << way[0];
    if (session().ranks() == 1) continue;
    if (way[0].find("keep") != std::string::npos) continue;  // that layer needs a whole slot
    EXPECT_LT(predicted(overrides), predicted(with(overrides, kInCompute))) << way[0];
  }
}

}  // namespace
}  // namespace strata::trainer
