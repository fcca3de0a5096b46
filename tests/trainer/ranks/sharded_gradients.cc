// SPDX-License-Identifier: MIT
#include "tests/trainer/ranks/sharded_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "sharding/communication/local_communicator.h"
#include "tests/sharding/mpi_main.h"
#include "tests/trainer/data/idx_files.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/config/load_config.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

using tests::session;

TrainerConfig config_for(const Overrides& overrides, int ranks) {
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
  Overrides all = overrides;
  all.push_back("run.ranks=" + std::to_string(ranks));
  return parse_trainer_config("test.yaml", text, all).config;
}

Overrides vision(const Overrides& overrides) {
  static const std::string path = write_images("sharded", 40, 6, 7);
  Overrides all = {
      "model={type: vision_transformer, layers: 5, width: 24, heads: 3, image_size: 6, patch: 2, channels: 1, classes: "
      "7, layer_scale: 0.5, label_smoothing: 0.1, feed_forward: 41}",
      "data={type: idx, train_images: " + path + "-images, train_labels: " + path + "-labels, validation_images: " +
          path + "-images, validation_labels: " + path + "-labels, flip: true, shift: 1}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

Overrides graph(const std::string& convolution, const Overrides& overrides) {
  Overrides all = {"model={type: graph_network, convolution: " + convolution +
                       ", layers: 4, width: 24, features: 19, classes: 7, residual: true}",
                   "data={type: synthetic_graph, nodes: 331, edges: 2500}", "batch=1", "micro_batch=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

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
    group->for_each_piece([&](const auto& entry, int64_t parameter_offset, int64_t shard_offset, int64_t count) {
      full[entry.name].narrow(0, parameter_offset, count).copy_(group->gradient().narrow(0, shard_offset, count));
    });
    for (auto& [name, gradient] : full) {
      mesh.shard->all_reduce(gradient, "test").wait();
      result.gradients[name] = gradient / loss_scale;
    }
  }
  return result;
}

const Result& on_one_rank(const Overrides& overrides) {
  static auto& once = *new std::map<Overrides, Result>;  // never destroyed: CUDA may have ended before
  sharding::LocalCommunicator alone(tests::device());
  if (!once.contains(overrides)) once[overrides] = gradients_of(config_for(overrides, 1), alone);
  return once[overrides];
}

Result on_all_ranks(const Overrides& overrides) {
  return gradients_of(config_for(overrides, session().ranks()), tests::world());
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

std::string two_micro_batches() { return "batch=" + std::to_string(4 * session().ranks()); }

std::string one_micro_batch() { return "micro_batch=" + std::to_string(24 / session().ranks()); }

}  // namespace strata::trainer
