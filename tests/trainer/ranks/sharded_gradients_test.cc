// SPDX-License-Identifier: MIT
// Compares losses and gradients of a sharded model with one rank that holds everything, for every kind of sharding, on
// CPUs or on GPUs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sharding/communication/local_communicator.h"
#include "tests/sharding/mpi_main.h"
#include "tests/trainer/data/idx_files.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/config/load_config.h"
#include "trainer/data/images/image_mixing.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/memory/memory_estimate.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

using tests::bootstrap;

// No number of ranks divides these sizes. There are five layers, so that they share slots.
TrainerConfig config_for(const std::vector<std::string>& overrides, int ranks) {
  static const std::string path = write_own_tokens(/*count=*/600, /*vocabulary=*/37);
  const std::string text =
      "run: {folder: unused, seed: 3}\n"
      "steps: 1\n"
      "batch: 24\n"
      "micro_batch: 2\n"
      "model: {type: transformer, family: llama, layers: 5, width: 24, heads: 3, key_value_heads: 1, feed_forward: 41, "
      "sequence: 10, vocabulary: 37, tied: true}\n"
      "data: {type: text, train: " +
      path + ", validation: " + path +
      "}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\n"
      "schedule: {type: constant}\n";
  std::vector<std::string> all = overrides;
  all.push_back("run.ranks=" + std::to_string(ranks));
  return parse_trainer_config("test.yaml", text, all).config;
}

const std::vector<std::string> kGpt2 = {"model.family=gpt2", "model.feed_forward=0", "model.key_value_heads=0"};

// A vision transformer with all optional parts, instead of the language model.
std::vector<std::string> vision(const std::vector<std::string>& overrides) {
  static const std::string path = write_images("sharded", 40, 6, 7);
  std::vector<std::string> all = {
      "model={type: vision_transformer, layers: 5, width: 24, heads: 3, image_size: 6, patch: 2, channels: 1, classes: "
      "7, layer_scale: 0.5, label_smoothing: 0.1, feed_forward: 41}",
      "data={type: idx, train_images: " + path + "-images, train_labels: " + path + "-labels, validation_images: " +
          path + "-images, validation_labels: " + path + "-labels, flip: true, shift: 1}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

// A graph network with this convolution, whose nodes are split over the ranks.
std::vector<std::string> graph(const std::string& convolution, const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model={type: graph_network, convolution: " + convolution +
                                      ", layers: 4, width: 24, features: 19, classes: 7, residual: true}",
                                  "data={type: synthetic_graph, nodes: 331, edges: 2500}", "batch=1", "micro_batch=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

struct Result {
  float loss = 0;
  std::map<std::string, Tensor> gradients;  // unsharded
  int64_t bytes = 0;
};

// Runs forward and backward of one step on the ranks of `world`, with NaN in every released slot.
Result gradients_of(const TrainerConfig& config, sharding::Communicator& world) {
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(world, config.sharding);
  const auto task = make_task(config);
  const at::Device device = world.device();
  const auto options = at::dtype(at::kFloat).device(device);
  ShardedModel model(config, *task, mesh, {.device = device, .poison_slots = true});
  const double loss_scale = config.precision.scales_loss() ? 4096 : 1;
  const Tensor scale = at::full({}, loss_scale / static_cast<double>(config.batch * task->items_per_sample()), options);
  const Tensor dropout_key = at::full({1}, 11, options.dtype(at::kLong));

  Tensor loss = at::zeros({}, options);
  model.begin_step();
  for (int64_t i = 0; i < config.micro_batches(); ++i) {
    model.set_last_micro_batch(i + 1 == config.micro_batches());
    const int64_t first = (i * world.size() + world.rank()) * config.micro_batch;
    const MicroBatch batch = to_device(task->training_batch(first, config.micro_batch), device);
    const Tensor part = task->loss(batch, scale, dropout_key);
    part.backward();
    model.finish_backward();
    loss.add_(part.detach());
  }
  model.reshard();
  world.all_reduce(loss, "loss").wait();

  Result result{static_cast<float>(loss.item<float>() / loss_scale), {}, model.bytes()};
  for (auto* group : model.groups()) {
    std::map<std::string, Tensor> full;
    for (const auto& entry : group->layout().entries()) full[entry.name] = at::zeros({entry.elements}, options);
    group->for_each_piece([&](const auto& entry, int64_t in_parameter, int64_t in_shard, int64_t count) {
      full[entry.name].narrow(0, in_parameter, count).copy_(group->gradient().narrow(0, in_shard, count));
    });
    for (auto& [name, gradient] : full) {
      mesh.shard->all_reduce(gradient, "test").wait();
      result.gradients[name] = gradient / loss_scale;
    }
  }
  return result;
}

const Result& on_one_rank(const std::vector<std::string>& overrides) {
  static auto& once = *new std::map<std::vector<std::string>, Result>;  // never destroyed: CUDA may have ended before
  sharding::LocalCommunicator alone(tests::device());
  if (!once.contains(overrides)) once[overrides] = gradients_of(config_for(overrides, 1), alone);
  return once[overrides];
}

Result on_all_ranks(const std::vector<std::string>& overrides) {
  return gradients_of(config_for(overrides, bootstrap().ranks()), tests::world());
}

double relative_difference(const Tensor& a, const Tensor& b) {
  const double scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

void expect_close(const Result& actual, const Result& expected, double tolerance) {
  EXPECT_NEAR(actual.loss, expected.loss, tolerance * expected.loss);
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name << " has no gradient";
    EXPECT_LT(relative_difference(actual.gradients.at(name), gradient), tolerance) << name;
  }
}

void expect_same_bits(const Result& actual, const Result& expected) {
  EXPECT_EQ(actual.loss, expected.loss);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(at::equal(actual.gradients.at(name), gradient)) << name;
  }
}

// A step of two micro-batches on any number of ranks. Results are not compared between numbers of ranks.
std::string two_micro_batches() { return "batch=" + std::to_string(4 * bootstrap().ranks()); }

// With one micro-batch, gradients keep the type of their reduction.
std::string one_micro_batch() { return "micro_batch=" + std::to_string(24 / bootstrap().ranks()); }

constexpr double kRounding = 2e-5;  // for another order of sums over 240 tokens in 5 layers of fp32

class ShardedGradients : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(ShardedGradients, EqualThoseOfOneRank) {
  std::vector<std::string> overrides = GetParam();
  const bool hybrid = overrides[0] == "sharding.strategy=hybrid";
  if (hybrid) overrides.push_back("sharding.shard_ranks=" + std::to_string(bootstrap().ranks() % 2 == 0 ? 2 : 1));
  expect_close(on_all_ranks(overrides), on_one_rank({}), kRounding);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ShardedGradients,
    testing::Values(std::vector<std::string>{"sharding.strategy=none"},
                    std::vector<std::string>{"sharding.strategy=full"},
                    std::vector<std::string>{"sharding.strategy=full", "sharding.prefetch=0"},
                    std::vector<std::string>{"sharding.strategy=full", "sharding.prefetch=3"},
                    std::vector<std::string>{"sharding.strategy=full", "sharding.reshard_after_forward=false"},
                    std::vector<std::string>{"sharding.strategy=full", "sharding.accumulate=full"},
                    std::vector<std::string>{"sharding.strategy=full", "micro_batch=1"},
                    std::vector<std::string>{"sharding.strategy=hybrid"},
                    std::vector<std::string>{"sharding.strategy=hybrid", "sharding.accumulate=full"},
                    std::vector<std::string>{"sharding.strategy=full", "gradient_checkpointing=full"},
                    std::vector<std::string>{"sharding.strategy=full", "gradient_checkpointing=selective"},
                    std::vector<std::string>{"sharding.strategy=full", "gradient_checkpointing=selective",
                                             "sharding.accumulate=full", "sharding.prefetch=0"},
                    std::vector<std::string>{"sharding.strategy=full", "kernels.default=torchscript"},
                    std::vector<std::string>{"sharding.strategy=full", "kernels.default=torchscript",
                                             "gradient_checkpointing=selective"},
                    std::vector<std::string>{"sharding.strategy=full", "kernels.linear_cross_entropy=aten"},
                    std::vector<std::string>{"sharding.strategy=full", "kernels.linear_cross_entropy=torchscript"}));

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
    for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
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
  const std::vector<std::string> mixup = vision({"data.mixup=1"});
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
  const std::vector<std::string> overrides = vision({"model.stochastic_depth=0.5", "model.dropout=0.1"});
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

TEST(ShardedGradients, Of16BitsStayNearFloat32) {
  for (const bool images : {false, true}) {
    const auto with = [&](const std::vector<std::string>& more) { return images ? vision(more) : more; };
    const Result& exact = on_one_rank(with({}));
    for (const std::string types : {"bfloat16", "bfloat16, reduce: bfloat16", "float16, reduce: float16"}) {
      const double most = types.starts_with("float16") ? 0.15 / 8 : 0.15;  // it has 3 more bits
      for (const std::string& batches : {std::string("micro_batch=2"), one_micro_batch()}) {
        SCOPED_TRACE(types + " " + batches);
        const Result rounded = on_all_ranks(with({"precision={compute: " + types + "}", batches}));
        EXPECT_NEAR(rounded.loss, exact.loss, most / 15 * exact.loss);
        expect_close(rounded, exact, most);  // bfloat16: 0.087 without AVX-512
      }
    }
  }
}

// Some layers have another type than the rest. With all layers in float32, only embedding, last norm and head round.
TEST(ShardedGradients, OfLayersWithATypeOfTheirOwn) {
  const auto with = [](const std::string& rest, const std::string& lines) {
    return std::vector<std::string>{"precision={" + rest + ", layers: [" + lines + "]}"};
  };
  const Result& exact = on_one_rank({});
  const auto largest_difference = [&](const Result& result) {
    double largest = 0;
    for (const auto& [name, gradient] : exact.gradients) {
      if (!name.starts_with("blocks.")) continue;
      largest = std::max(largest, relative_difference(result.gradients.at(name), gradient));
    }
    return largest;
  };
  const std::string rounded = "compute: bfloat16, reduce: bfloat16";
  const double everywhere = largest_difference(on_all_ranks(with(rounded, "")));
  EXPECT_LT(everywhere, 8e-2);
  EXPECT_LT(largest_difference(on_all_ranks(with(rounded, "{only: 0-4, compute: float32}"))), 0.5 * everywhere);

  // Entries without effect change no bit, and neither does gradient checkpointing in layers of both types.
  const auto short_step = [](std::vector<std::string> overrides) {
    overrides.push_back(two_micro_batches());
    return on_all_ranks(overrides);
  };
  expect_same_bits(short_step(with("compute: float32", "{only: 0-4, compute: float32}")), short_step({}));
  expect_same_bits(short_step(with(rounded, "{only: 1, compute: float32}, {only: 0-4, compute: bfloat16}")),
                   short_step(with(rounded, "")));
  std::vector<std::string> mixed =
      with("compute: bfloat16", "{only: 0, compute: float32}, {only: 3-4, compute: float32}");
  const Result without = short_step(mixed);
  mixed.push_back("gradient_checkpointing=[0-1, 2-4 selective]");
  expect_same_bits(short_step(mixed), without);
}

// Some parameter groups are in float32 and the others in bfloat16.
TEST(ShardedGradients, OfGroupsWithATypeOfTheirOwn) {
  using Words = std::vector<std::string>;
  const auto with = [](Words family, const Words& groups, const std::string& reduce) {
    std::string lines;
    for (const std::string& group : groups) lines += "{only: " + group + ", compute: float32}, ";
    family.push_back("precision={compute: bfloat16, reduce: " + reduce + ", modules: [" + lines + "]}");
    return family;
  };
  const auto expect_types = [&](const Words& family, const Words& some, const Words& all) {
    SCOPED_TRACE(family[0] + " " + some[0]);
    const Result &exact = on_one_rank(family), &mixed = on_one_rank(with(family, some, "float32"));
    expect_same_bits(on_one_rank(with(family, all, "float32")), exact);
    EXPECT_NE(mixed.loss, exact.loss);
    expect_close(on_all_ranks(with(family, some, "float32")), mixed, 4e-2);
    const Result reduced = on_all_ranks(with(family, some, "bfloat16"));
    expect_close(reduced, exact, 8e-2);
    Words checkpointed = with(family, some, "bfloat16");
    checkpointed.push_back("gradient_checkpointing=[0-1, 2-3 selective]");
    expect_same_bits(on_all_ranks(checkpointed), reduced);
  };
  expect_types({"model.tied=false"}, {"head"}, {"root", "blocks", "head"});
  expect_types(kGpt2, {"root", "blocks.1-2"}, {"root", "blocks.0-4"});
  expect_types(vision({}), {"head", "blocks.4"}, {"root", "blocks", "head"});
  expect_types(graph("sage", {}), {"layers.0"}, {"layers"});
  expect_types(graph("gcn", {"model.projection=dense"}), {"root", "layers.3"}, {"root", "layers"});
}

TEST(ShardedGradients, HaveTheSameBitsWhenTheStepIsRepeated) {
  expect_same_bits(on_all_ranks({"sharding.strategy=full"}), on_all_ranks({"sharding.strategy=full"}));
}

TEST(ShardedGradients, HaveTheSameBitsWithGradientCheckpointing) {
  for (const std::vector<std::string>& family :
       {std::vector<std::string>{"model.family=llama", two_micro_batches()},
        std::vector<std::string>{"model.family=gpt2", two_micro_batches()},
        vision({"model.stochastic_depth=0.5", two_micro_batches()}),
        graph("sage", {"model.norm=true", "model.projection=dense", "model.layers=5"}),
        graph("gat, heads: 2", {"model.layers=5"})}) {
    for (const char* type : {"precision.compute=float32", "precision.compute=bfloat16"}) {
      std::vector<std::string> plain = family;
      plain.insert(plain.end(), {type, "model.dropout=0.1"});
      const Result without = on_all_ranks(plain);
      for (const char* layers : {"full", "selective", "[0-4, 1 none, 2-3 selective]"}) {
        SCOPED_TRACE(family[0] + " " + type + " " + layers);
        std::vector<std::string> checkpointed = plain;
        checkpointed.push_back(std::string("gradient_checkpointing=") + layers);
        expect_same_bits(on_all_ranks(checkpointed), without);
      }
    }
  }
}

// The allocated bytes are those that `validate` predicts, except the optimizer's moments (8 bytes per element).
TEST(ShardedGradients, TakeTheMemoryThatIsPredicted) {
  const std::string mixed = "precision={compute: bfloat16, reduce: bfloat16, layers: [{only: 1-2, compute: float32}]}";
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"sharding.strategy=full"},
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
           vision({"precision.compute=bfloat16"}),
           graph("sage", {"model.projection=dense"}),
           graph("gcn", {"precision.compute=bfloat16"})}) {
    const TrainerConfig config = config_for(overrides, bootstrap().ranks());
    int64_t predicted = 0;
    for (const MemoryClass& kind : memory_per_rank(config, declared_model(config).groups)) {
      if (kind.name.find("moments") == std::string::npos) predicted += kind.bytes;
    }
    EXPECT_EQ(on_all_ranks(overrides).bytes, predicted) << overrides[0];
  }
}

}  // namespace
}  // namespace strata::trainer
