// SPDX-License-Identifier: MIT
#include "trainer/trace/trace_step.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "kernels/runtime/traced.h"
#include "sharding/communication/silent_communicator.h"
#include "sharding/parameters/device_mesh.h"
#include "sharding/parameters/run_in_backward.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/model/sharded_model.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using kernels::Tracing;
using modules::StepContext;
using modules::Stream;
using sharding::SilentCommunicator;

bool on_gpu(const TrainerConfig& config) { return config.run.device != sharding::DeviceWish::cpu; }

// While it lives, ops choose deterministic algorithms if the run does.
class Determinism {
 public:
  explicit Determinism(bool wanted) : before_(at::globalContext().deterministicAlgorithms()) { set(wanted); }
  ~Determinism() { set(before_); }

 private:
  static void set(bool wanted) { at::globalContext().setDeterministicAlgorithms(wanted, /*warn_only=*/false); }
  const bool before_;
};

sharding::DeviceMesh silent_mesh(SilentCommunicator& all, const sharding::ShardingConfig& config) {
  const auto shards = static_cast<int>(config.ranks_per_copy(all.size()));
  return {.shard = std::make_unique<SilentCommunicator>(all.rank() % shards, shards, at::kMeta),
          .replicate = std::make_unique<SilentCommunicator>(all.rank() / shards, all.size() / shards, at::kMeta),
          .all = &all};
}

// Names the parts of the step for the trace, and reads how much each layer keeps.
class Watch {
 public:
  Watch(Tracing& tracing, StepTrace& trace) : tracing_(tracing), trace_(trace) {}

  modules::Layer around(int64_t index, modules::Layer layer) {
    trace_.layers.push_back(0);
    return [this, index, name = "layer " + std::to_string(index), layer = std::move(layer)](
               const Stream& stream, const StepContext& context) {
      const auto entering = [this](std::string place) { return [this, place] { tracing_.enter(place); }; };
      const std::vector<Tensor> inputs = sharding::run_in_backward({stream.residual, stream.branch},
                                                                   entering("the backward of what is before " + name));
      const int64_t before = tracing_.now();
      tracing_.enter("the forward of " + name);
      const Stream output = layer({inputs[0], inputs[1]}, context);
      trace_.layers.at(static_cast<size_t>(index)) = tracing_.now() - before;
      trace_.kept = tracing_.now();
      tracing_.enter("the loss");
      const std::vector<Tensor> outputs =
          sharding::run_in_backward({output.residual, output.branch}, entering("the backward of " + name));
      return Stream{outputs[0], outputs[1]};
    };
  }

 private:
  Tracing& tracing_;
  StepTrace& trace_;
};

// True if an op of the run may be at level torchscript.
bool uses_torchscript(const TrainerConfig& config) {
  const auto names = [](modules::OpLevels levels) {
    bool named = false;
    levels.each([&](const char*, const std::optional<Level>& level) { named |= level == Level::torchscript; });
    return named;
  };
  const modules::KernelsConfig& kernels = config.kernels;
  return kernels.default_level == Level::torchscript || names(kernels.levels) ||
         std::ranges::any_of(kernels.layers, names, &modules::LayerKernels::levels) ||
         std::ranges::any_of(kernels.modules, names, &modules::ModuleKernels::levels);
}

}  // namespace

StepTrace trace_step(const TrainerConfig& given, Task& task, int rank) {
  TrainerConfig config = given;
  if (!config.kernels.default_level) config.kernels.default_level = on_gpu(config) ? Level::cuda : Level::aten;
  const Determinism determinism(config.run.deterministic);
  Tracing tracing(on_gpu(config) ? c10::kCUDA : c10::kCPU);
  StepTrace trace;
  Watch watch(tracing, trace);
  const auto options = at::TensorOptions(at::kMeta);

  SilentCommunicator world(rank, static_cast<int>(config.run.ranks), at::kMeta);
  const sharding::DeviceMesh mesh = silent_mesh(world, config.sharding);
  ShardedModel model(
      config, task, mesh,
      {.device = at::kMeta,
       .around = [&](int64_t index, modules::Layer layer) { return watch.around(index, std::move(layer)); },
       .initialized = false});
  trace.task = model.bytes_of_task();

  const Tensor scale = at::empty({}, options.dtype(at::kFloat)), dropout_key = at::empty({1}, options.dtype(at::kLong));
  const int64_t before_batch = tracing.now();
  const MicroBatch batch = task.example_batch(config.micro_batch).with_each([](const Tensor& tensor) {
    return tensor.is_meta() ? tensor : tensor.to(at::kMeta);
  });
  const int64_t copies = on_gpu(config) ? 3 : 1;  // as the feed has them
  trace.batches = copies * config.micro_batches() * (tracing.now() - before_batch);

  const int64_t standing = tracing.now();
  const std::vector<MicroBatch> batches(static_cast<size_t>(std::min<int64_t>(config.micro_batches(), 2)), batch);
  // TorchScript observes the first call of a function and keeps other tensors then.
  for (int round = 0; round < (uses_torchscript(config) ? 2 : 1); ++round) {
    tracing.forget_most();
    accumulate_gradients(
        task, model, batches, scale, dropout_key,
        [&](Phase phase) {
          if (phase == Phase::forward) tracing.enter("the embedding");
          return 0;
        },
        [&] { tracing.enter("the sum over replicas"); });
  }
  trace.kept -= standing;
  trace.most = tracing.most() - standing;
  trace.moment = tracing.moment();
  return trace;
}

std::optional<StepTrace> trace_step(const TrainerConfig& config) {
  const std::unique_ptr<Task> task = make_task_without_data(config);
  if (!task) return std::nullopt;
  return trace_step(config, *task);
}

}  // namespace strata::trainer
