// SPDX-License-Identifier: MIT
#include "tests/trainer/memory/counted_step.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include "tests/sharding/mpi_main.h"
#include "tests/trainer/data/idx_files.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/memory/allocation_meter.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

using tests::session;

// On a GPU, without what its allocator leaves at the end of large blocks: up to 1 MiB of each.
struct Requested {
  c10::DeviceIndex gpu;
  int64_t at_start = 0;

  explicit Requested(at::Device device) : gpu(device.index()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(gpu);
    at_start = stat().current;
  }
  int64_t now() const { return stat().current; }
  int64_t most() const { return stat().peak - at_start; }
  c10::CachingAllocator::Stat stat() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu)
        .requested_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }
};

}  // namespace

bool on_gpu() {
  const char* device = std::getenv("STRATA_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

LoadedConfig loaded_for(std::vector<std::string> overrides) {
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
  overrides.push_back("run.ranks=" + std::to_string(session().ranks()));
  // A step on the whole graph has one sample.
  const bool whole = std::find(overrides.begin(), overrides.end(), "micro_batch=1") != overrides.end() &&
                     overrides.front().find("graph_network") != std::string::npos;
  overrides.push_back("batch=" + std::to_string(whole ? 1 : (on_gpu() ? 4096 : 64) * session().ranks()));
  overrides.push_back(tests::device().is_cpu() ? "run.device=cpu" : "run.device=cuda");
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);  // as the configuration has it
  return parse_trainer_config("test.yaml", text, overrides);
}

std::vector<std::string> vision(const std::vector<std::string>& overrides) {
  static const std::string path = write_images("step_memory", 128, 64, 10);
  std::vector<std::string> all = {
      "model={type: vision_transformer, layers: 4, width: 64, heads: 4, feed_forward: 192, image_size: 64, patch: 8, "
      "channels: 1, classes: 10, label_smoothing: 0.1}",
      "data={type: idx, train_images: " + path + "-images, train_labels: " + path +
          "-labels, validation_images: " + path + "-images, validation_labels: " + path + "-labels}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

std::vector<std::string> graph(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {
      "model={type: graph_network, convolution: sage, features: 48, layers: 4, width: 64, classes: 16}",
      "data={type: synthetic_graph, nodes: 3000, edges: 24000}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const bool sampled = std::any_of(overrides.begin(), overrides.end(),
                                   [](const std::string& text) { return text.starts_with("data.neighbors"); });
  // On GPUs hundreds of MB, beside which cuBLASLt's workspaces are few.
  if (on_gpu()) all[1] = "data={type: synthetic_graph, nodes: 150000, edges: 600000}";
  all.push_back(sampled ? on_gpu() ? "micro_batch=4096" : "micro_batch=64" : "micro_batch=1");
  return all;
}

Counted count(const TrainerConfig& config) {
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(tests::world(), config.sharding);
  const auto task = make_task(config);
  const at::Device device = tests::device();
  std::function<int64_t()> now;  // where it counts
  Counted counted;
  const auto wrap_layer = [&](int64_t index, modules::Layer layer) -> modules::Layer {
    counted.layers.push_back(0);
    return [&, index, layer = std::move(layer)](const modules::ResidualStream& stream,
                                                const modules::StepContext& context) {
      const int64_t before = now ? now() : 0;
      modules::ResidualStream output = layer(stream, context);
      if (now) counted.layers.at(static_cast<size_t>(index)) = now() - before;
      return output;
    };
  };
  ShardedModel model(config, *task, mesh, {.device = device, .wrap_layer = wrap_layer});
  counted.task = model.bytes_of_task();
  const auto options = at::dtype(at::kFloat).device(device);
  const Tensor scale = at::full({}, 1e-3, options), dropout_key = at::full({1}, 11, options.dtype(at::kLong));
  const MicroBatch batch = to_device(task->training_batch(0, config.micro_batch), device);
  const std::vector<MicroBatch> batches(static_cast<size_t>(std::min<int64_t>(config.micro_batches(), 2)), batch);
  const int64_t unit = device.is_cpu() ? 1 : 512;  // in multiples of which memory is given out
  for (const Tensor& tensor : batch.tensors()) {
    counted.batch += (static_cast<int64_t>(tensor.nbytes()) + unit - 1) / unit * unit;
  }
  for (const bool counts : {false, true}) {
    const AllocationMeter counter(device);
    const auto requested = device.is_cuda() ? std::optional(Requested(device)) : std::nullopt;
    if (counts) now = [&] { return requested ? requested->now() : counter.counts().current_bytes; };
    accumulate_gradients(
        *task, model, batches, scale, dropout_key, [](Phase) { return 0; }, [] {});
    now = nullptr;
    if (counts) counted.most = requested ? requested->most() : counter.counts().peak_bytes;
  }
  return counted;
}

}  // namespace strata::trainer
