// SPDX-License-Identifier: MIT
// What a step allocates, counted by the allocator, against what is predicted for it: by layer exactly, at most within
// 3 %. On CPUs or on GPUs.
#include "trainer/step_memory.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/sharding/mpi_main.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/allocation_meter.h"
#include "trainer/layer_costs.h"
#include "trainer/layer_trial.h"
#include "trainer/load_config.h"
#include "trainer/parallelize.h"
#include "trainer/task.h"

namespace strata::trainer {
namespace {

using tests::bootstrap;

TrainerConfig config_for(std::vector<std::string> overrides) {
  static const std::string path = write_own_tokens(/*count=*/3000, /*vocabulary=*/199);
  const std::string text =
      "run: {folder: unused, seed: 3}\n"
      "steps: 1\n"
      "batch: 2\n"
      "micro_batch: 2\n"
      "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, key_value_heads: 2, "
      "feed_forward: 192, sequence: 128, vocabulary: 199}\n"
      "data: {type: text, train: " +
      path + ", validation: " + path +
      "}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\n"
      "schedule: {type: constant}\n";
  overrides.push_back("run.ranks=" + std::to_string(bootstrap().ranks()));
  overrides.push_back("batch=" + std::to_string(2 * bootstrap().ranks()));
  overrides.push_back(tests::device().is_cpu() ? "run.device=cpu" : "run.device=cuda");
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);  // as the configuration has it
  return parse_trainer_config("test.yaml", text, overrides).config;
}

struct Counted {
  std::vector<int64_t> layers;
  int64_t most = 0;
};

// The second of two micro-batches: the first makes what is made once.
Counted count(const TrainerConfig& config) {
  const auto world = bootstrap().communicator();
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(*world, config.sharding);
  const auto task = make_task(config);
  const at::Device device = world->device();
  const AllocationMeter* meter = nullptr;
  Counted counted;
  const auto around = [&](int64_t, modules::Layer layer) -> modules::Layer {
    return [&, layer = std::move(layer)](const modules::Stream& stream, const modules::StepContext& context) {
      const int64_t before = meter ? meter->now() : 0;
      modules::Stream output = layer(stream, context);
      if (meter) counted.layers.push_back(meter->now() - before);
      return output;
    };
  };
  ShardedModel model(config, *task, mesh, {.device = device, .around = around});
  const auto options = at::dtype(at::kFloat).device(device);
  const Tensor scale = at::full({}, 1e-3, options), dropout_key = at::full({1}, 11, options.dtype(at::kLong));
  MicroBatch batch = task->training_batch(0, config.micro_batch);
  batch = {batch.inputs.to(device), batch.targets.to(device), 0};
  for (const bool counts : {false, true}) {
    model.begin_step();
    model.set_last_micro_batch(true);
    const AllocationMeter counter(device);
    if (counts) meter = &counter;
    task->loss(batch, scale, dropout_key).backward();
    if (counts) counted.most = counter.most();
    meter = nullptr;
    model.finish_backward();
    model.reshard();
  }
  return counted;
}

StepMemory predicted(const TrainerConfig& config) {
  return step_memory(config, std::get<modules::TransformerConfig>(config.model.type));
}

class StepMemoryOf : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(StepMemoryOf, EveryWayOfCheckpointing) {
  for (const char* family : {"llama", "gpt2"}) {
    for (const char* layers : {"none", "selective", "full", "[0, 2 selective]"}) {
      std::vector<std::string> overrides = GetParam();
      overrides.push_back(std::string("model.family=") + family);
      overrides.push_back(std::string("gradient_checkpointing=") + layers);
      const TrainerConfig config = config_for(overrides);
      const StepMemory expected = predicted(config);
      const Counted counted = count(config);
      SCOPED_TRACE(std::string(family) + " " + layers + ", most at " + expected.moment);
      EXPECT_EQ(counted.layers, expected.layers);
      const double difference = static_cast<double>(expected.most - counted.most) / static_cast<double>(counted.most);
      EXPECT_LT(std::abs(difference), 0.03) << "predicted " << expected.most << ", counted " << counted.most;
      if (bootstrap().rank() == 0) {
        std::printf("%s %s, most at %s: predicted %+.2f %% off\n", family, layers, expected.moment.c_str(),
                    100 * difference);
      }
    }
  }
}

std::vector<std::vector<std::string>> configurations() {
  std::vector<std::vector<std::string>> all = {{},
                                               {"model.key_value_heads=4"},
                                               {"model.vocabulary=2000", "model.tied=false"},
                                               {"precision.compute=bfloat16", "model.vocabulary=1000"},
                                               {"model.dropout=0.1"},
                                               {"kernels.linear_cross_entropy=aten", "model.vocabulary=2000"}};
  const char* device = std::getenv("STRATA_TEST_DEVICE");
  if (device == nullptr || std::string(device) != "cuda") return all;
  const std::string bfloat16 = "precision.compute=bfloat16", cuda = "kernels={default: cuda}";
  all.push_back({bfloat16, cuda, "model.vocabulary=1000"});
  all.push_back({bfloat16, cuda, "kernels.linear_cross_entropy=cuda", "model.vocabulary=1000"});
  all.push_back(
      {bfloat16, cuda, "kernels.linear_cross_entropy=cuda", "model.vocabulary=2048", "precision.reduce=bfloat16"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Configurations, StepMemoryOf, testing::ValuesIn(configurations()));

// A trial predicts what a step takes in whatever way it chooses; with less memory, more is computed again.
TEST(LayerTrial, MeasuresWhatAStepTakes) {
  for (const char* family : {"model.family=llama", "model.family=gpt2"}) {
    TrainerConfig config = config_for({family, "model.layers=6"});
    const StepCosts costs = measure_layers(config, bootstrap());
    const int64_t least = least_bytes(costs), most = most_bytes(costs, LayerChoice(6, Recompute::none));
    EXPECT_LT(least - costs.standing, (most - costs.standing) * 2 / 3);
    for (const int64_t budget : {most, least + (most - least) * 2 / 3, least + (most - least) / 3, least}) {
      const auto choice = cheapest_that_fits(costs, budget);
      ASSERT_TRUE(choice.has_value());
      config.gradient_checkpointing = as_config(*choice);
      const auto expected = static_cast<double>(most_bytes(costs, *choice) - costs.standing);
      EXPECT_NEAR(static_cast<double>(count(config).most) / expected, 1, 0.03) << family << ", budget " << budget;
    }
    EXPECT_EQ(cheapest_that_fits(costs, most), LayerChoice(6, Recompute::none));
    EXPECT_EQ(cheapest_that_fits(costs, least - 1), std::nullopt);
  }
}

}  // namespace
}  // namespace strata::trainer
