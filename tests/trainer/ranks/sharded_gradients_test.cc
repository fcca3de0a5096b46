// SPDX-License-Identifier: MIT
// Compares losses and gradients of a sharded model with one rank that holds everything, for every kind of sharding, on
// CPUs or on GPUs.
#include "tests/trainer/ranks/sharded_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <string>

#include "sharding/communication/local_communicator.h"
#include "tests/sharding/mpi_main.h"
#include "trainer/data/images/image_mixing.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/model/sharded_model.h"
#include "trainer/prediction/memory_estimate.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

using tests::session;

constexpr double kRounding = 2e-5;  // for another order of sums over 240 tokens in 5 layers of fp32

class ShardedGradients : public testing::TestWithParam<Overrides> {};

TEST_P(ShardedGradients, EqualThoseOfOneRank) {
  Overrides overrides = GetParam();
  const bool hybrid = overrides[0] == "sharding.strategy=hybrid";
  if (hybrid) overrides.push_back("sharding.shard_ranks=" + std::to_string(session().ranks() % 2 == 0 ? 2 : 1));
  expect_close(on_all_ranks(overrides), on_one_rank({}), kRounding);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ShardedGradients,
    testing::Values(Overrides{"sharding.strategy=none"}, Overrides{"sharding.strategy=full"},
                    Overrides{"sharding.strategy=full", "sharding.prefetch=0"},
                    Overrides{"sharding.strategy=full", "sharding.prefetch=3"},
                    Overrides{"sharding.strategy=full", "sharding.reshard_after_forward=false"},
                    Overrides{"sharding.strategy=full", "sharding.accumulate=full"},
                    Overrides{"sharding.strategy=full", "micro_batch=1"}, Overrides{"sharding.strategy=hybrid"},
                    Overrides{"sharding.strategy=hybrid", "sharding.accumulate=full"},
                    Overrides{"sharding.strategy=full", "gradient_checkpointing=full"},
                    Overrides{"sharding.strategy=full", "gradient_checkpointing=selective"},
                    Overrides{"sharding.strategy=full", "gradient_checkpointing=selective", "sharding.accumulate=full",
                              "sharding.prefetch=0"},
                    Overrides{"sharding.strategy=full", "kernels.default=torchscript"},
                    Overrides{"sharding.strategy=full", "kernels.default=torchscript",
                              "gradient_checkpointing=selective"},
                    Overrides{"sharding.strategy=full", "kernels.linear_cross_entropy=aten"},
                    Overrides{"sharding.strategy=full", "kernels.linear_cross_entropy=torchscript"}));

TEST(ShardedGradients, OfBothFamiliesAndAnUntiedHead) {
  expect_close(on_all_ranks(kGpt2), on_one_rank(kGpt2), kRounding);
  expect_close(on_all_ranks({"model.tied=false"}), on_one_rank({"model.tied=false"}), kRounding);
}

TEST(ShardedGradients, OfModelsOfImages) {
  const std::string mixer = "{type: mixer, layers: 5, width: 8, image_size: 6, patch: 2, channels: 1, classes: 7}";
  for (const std::string& model : {std::string("model.pooling=mean"), "model=" + mixer})
    expect_close(on_all_ranks(vision({model})), on_one_rank(vision({model})), kRounding);
  const Result& one = on_one_rank(vision({}));
  expect_close(on_all_ranks(vision({})), one, kRounding);
  expect_close(on_all_ranks(vision({"sharding.accumulate=full", "gradient_checkpointing=full"})), one, kRounding);
}

TEST(ShardedGradients, OfGraphNetworks) {
  for (const std::string convolution : {"sage", "sage, reduction: max", "gcn", "gin", "gat, heads: 3"}) {
    // Without leaky_relu the score gradients of one target would sum to 0, so what remains has lost some bits.
    const double tolerance = convolution.starts_with("gat") ? 5 * kRounding : kRounding;
    for (const Overrides& more : std::vector<Overrides>{
             {"model.dropout=0.3"},     // the features are the input of the first convolution
             {"model.residual=false"},  // and every convolution but the last one ends in a relu
             {"model.projection=dense", "model.norm=true", "model.dropout=0.3", "model.activation=gelu_tanh"},
             {"model.projection=sparse", "model.norm=true", "model.activation=silu", "sharding.accumulate=full"}}) {
      SCOPED_TRACE(convolution + " " + more[0]);
      expect_close(on_all_ranks(graph(convolution, more)), on_one_rank(graph(convolution, more)), tolerance);
    }
  }
}

TEST(ShardedGradients, OfMixedImagesAreThoseOfBothLabels) {
  const Overrides mixup = vision({"data.mixup=1"});
  expect_close(on_all_ranks(mixup), on_one_rank(mixup), kRounding);
  expect_close(on_all_ranks(vision({"data.cutmix=1"})), on_one_rank(vision({"data.cutmix=1"})), kRounding);

  // The loss of a mixed batch is the weighted sum of the losses with each label.
  const TrainerConfig config = config_for(mixup, 1);
  sharding::LocalCommunicator alone(tests::device());
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(alone, config.sharding);
  const auto task = make_task(config);
  ShardedModel model(config, *task, mesh, {.device = tests::device()});
  model.begin_step();
  const MicroBatch batch = to_device(task->training_batch(0, config.micro_batch), tests::device());
  const auto& [images, labels, shares] = batch.as<MixedImages>();
  const Tensor others = swapped_in_pairs(labels);
  ASSERT_FALSE(at::equal(labels, others));
  const Tensor one = at::full({}, 1, at::dtype(at::kFloat).device(tests::device()));
  const auto loss = [&](const MicroBatch& part) { return task->loss(part, one, {}).item<double>(); };
  const double share = shares.mean().item<double>(), whole = loss(batch);
  EXPECT_GT(share, 0.01);
  EXPECT_LT(share, 0.99);
  // Normalization before and after mixing gives the same.
  const Tensor seen = mixed(images.to(at::kFloat), shares);
  const double first = loss(MixedImages{seen, labels}), second = loss(MixedImages{seen, others});
  EXPECT_NE(first, second);
  EXPECT_NEAR(whole, share * first + (1 - share) * second, 1e-5 * whole);
  model.reshard();
}

TEST(ShardedGradients, LeaveOutTheSameBranchesOnAnyNumberOfRanks) {
  const Overrides overrides = vision({"model.stochastic_depth=0.5", "model.dropout=0.1"});
  expect_close(on_all_ranks(overrides), on_one_rank(overrides), kRounding);
  const Result &with = on_one_rank(vision({"model.stochastic_depth=0.5"})), &without = on_one_rank(vision({}));
  const auto change = [&](const std::string& name) {
    return relative_difference(with.gradients.at(name), without.gradients.at(name));
  };
  EXPECT_GT(change("position.weight"), 1e-2);
  EXPECT_GT(change("blocks.4.mlp.down.weight"), 1e-1);  // half of the samples skip this branch
}

TEST(ShardedGradients, DropOutTheSameElementsOnAnyNumberOfRanks) {
  const Result& with = on_one_rank({"model.dropout=0.2"});
  expect_close(on_all_ranks({"model.dropout=0.2"}), with, kRounding);
  EXPECT_GT(
      relative_difference(with.gradients.at("embedding.weight"), on_one_rank({}).gradients.at("embedding.weight")),
      1e-2);
}

TEST(ShardedGradients, HaveTheSameBitsWhenTheStepIsRepeated) {
  expect_same_bits(on_all_ranks({"sharding.strategy=full"}), on_all_ranks({"sharding.strategy=full"}));
}

TEST(ShardedGradients, HaveTheSameBitsWithGradientCheckpointing) {
  for (const Overrides& family :
       {Overrides{"model.family=llama", two_micro_batches()}, Overrides{"model.family=gpt2", two_micro_batches()},
        vision({"model.stochastic_depth=0.5", two_micro_batches()}),
        graph("sage", {"model.norm=true", "model.projection=dense", "model.layers=5"}),
        graph("gat, heads: 2", {"model.layers=5"})}) {
    for (const char* type : {"precision.compute=float32", "precision.compute=bfloat16"}) {
      Overrides plain = family;
      plain.insert(plain.end(), {type, "model.dropout=0.1"});
      const Result without = on_all_ranks(plain);
      for (const char* layers : {"full", "selective", "[0-4, 1 none, 2-3 selective]"}) {
        SCOPED_TRACE(family[0] + " " + type + " " + layers);
        Overrides checkpointed = plain;
        checkpointed.push_back(std::string("gradient_checkpointing=") + layers);
        expect_same_bits(on_all_ranks(checkpointed), without);
      }
    }
  }
}

// The allocated bytes are those that `validate` predicts, except the optimizer's moments (8 bytes per element).
TEST(ShardedGradients, TakeTheMemoryThatIsPredicted) {
  const std::string mixed = "precision={compute: bfloat16, reduce: bfloat16, layers: [{only: 1-2, compute: float32}]}";
  for (const Overrides& overrides :
       std::vector<Overrides>{{"sharding.strategy=full"},
                              {"sharding.strategy=none"},
                              {"precision.compute=bfloat16", "model.tied=false"},
                              {"precision.compute=bfloat16", "precision.reduce=bfloat16", one_micro_batch()},
                              {mixed},
                              {mixed, "sharding.accumulate=full", "sharding.reshard_after_forward=false"},
                              {"precision={compute: bfloat16, reduce: bfloat16, modules: [{only: root, "
                               "compute: float32}, {only: blocks.2, compute: float32}]}",
                               "model.tied=false"},
                              vision({"precision={compute: bfloat16, modules: [{only: head, compute: float32}]}"}),
                              {"sharding.reshard_after_forward=false", "sharding.prefetch=3"},
                              {"sharding.accumulate=full"},
                              {"precision.linear={format: fp8, scaling: delayed, history: 5, keep: [first]}"},
                              vision({"precision.compute=bfloat16"}),
                              graph("sage", {"model.projection=dense"}),
                              graph("gcn", {"precision.compute=bfloat16"})}) {
    const TrainerConfig config = config_for(overrides, session().ranks());
    const auto [groups, modules] = declared_model(config);
    int64_t predicted = 0;
    for (const MemoryClass& kind : memory_per_rank(buffer_rules(config), config.optimizer, groups, modules)) {
      if (kind.name.find("moments") == std::string::npos) predicted += kind.bytes;
    }
    EXPECT_EQ(on_all_ranks(overrides).bytes, predicted) << overrides[0];
  }
}

}  // namespace
}  // namespace strata::trainer
