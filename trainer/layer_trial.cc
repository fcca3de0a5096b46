// SPDX-License-Identifier: MIT
#include "trainer/layer_trial.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"
#include "modules/recompute.h"
#include "sharding/parameters/device_mesh.h"
#include "sharding/parameters/run_in_backward.h"
#include "sharding/process/failure.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/memory/allocation_meter.h"
#include "trainer/memory/memory_estimate.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

using modules::StepContext;
using modules::Stream;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3;  // the shortest time of them counts; the first round creates handles and workspaces

void wait_for(at::Device device) {
  if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

// Returns for every layer the layer that is measured for it: the middle one among the layers of the same kind.
std::vector<int64_t> representatives(const std::vector<modules::Module>& all, const PrecisionConfig& precision,
                                     const modules::KernelsConfig& kernels, size_t layers) {
  std::vector<std::string> kind_of(layers);
  for (const modules::Module& module : all) {
    const std::optional<int64_t> layer = modules::layer_of(module.name);
    if (!layer) continue;
    std::string& kind = kind_of.at(static_cast<size_t>(*layer));
    kind += std::to_string(static_cast<int>(precision.compute_of(module.group))) + " ";
    const modules::KernelSelection levels = modules::kernels_for(kernels, module.name);
    levels.each([&](const char*, kernels::Level level) { kind += std::to_string(static_cast<int>(level)) + " "; });
  }
  std::map<std::string, std::vector<int64_t>> kinds;
  for (size_t i = 0; i < layers; ++i) kinds[kind_of[i]].push_back(static_cast<int64_t>(i));
  std::vector<int64_t> result(layers);
  for (const auto& [kind, members] : kinds) {
    for (const int64_t member : members) result[static_cast<size_t>(member)] = members[members.size() / 2];
  }
  return result;
}

// Runs each layer in the way that `set` gave it and measures it.
class Trial {
 public:
  Trial(at::Device device, size_t layers) : device_(device), how_(layers, Recompute::full), costs_(layers) {}

  modules::Layer around(int64_t index, modules::Layer layer) {
    const size_t i = static_cast<size_t>(index);
    return [this, i, none = layer, selective = modules::recompute_selectively(layer), full = modules::recompute(layer)](
               const Stream& stream, const StepContext& context) {
      const std::vector<Tensor> inputs =
          sharding::run_in_backward({stream.residual, stream.branch}, [this, i] { end_of_backward(i); });
      const int64_t before = meter_->now();
      const modules::Layer& chosen = how_[i] == Recompute::none        ? none
                                     : how_[i] == Recompute::selective ? selective
                                                                       : full;
      const Stream output = chosen({inputs[0], inputs[1]}, context);
      costs_[i].kept = meter_->now() - before;
      stream_bytes_ = static_cast<int64_t>((output.branch.defined() ? output.branch : output.residual).nbytes());
      if (i + 1 == how_.size()) meter_->forget_most(), at_end_of_forward_ = meter_->now();
      const std::vector<Tensor> outputs =
          sharding::run_in_backward({output.residual, output.branch}, [this, i] { begin_of_backward(i); });
      return Stream{outputs[0], outputs[1]};
    };
  }

  void begin(AllocationMeter& meter) { meter_ = &meter; }
  // Called after the backward. If the inputs of the model need no gradient, no node before the first layer ran.
  void end() {
    if (under_way_) end_of_backward(*under_way_);
  }
  void set(size_t layer, Recompute how) { how_[layer] = how; }
  const LayerCost& cost(size_t layer) const { return costs_[layer]; }
  int64_t head() const { return head_; }
  int64_t stream_bytes() const { return stream_bytes_; }

 private:
  void begin_of_backward(size_t i) {
    if (i + 1 == how_.size()) head_ = meter_->most() - at_end_of_forward_;
    wait_for(device_);
    meter_->forget_most();
    at_begin_ = meter_->now();
    began_ = Clock::now();
    under_way_ = i;
  }
  void end_of_backward(size_t i) {
    under_way_.reset();
    costs_[i].backward = meter_->most() - at_begin_;
    wait_for(device_);
    costs_[i].milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - began_).count();
  }

  const at::Device device_;
  AllocationMeter* meter_ = nullptr;
  std::vector<Recompute> how_;
  std::vector<LayerCost> costs_;  // of the last micro-batch
  int64_t at_end_of_forward_ = 0, at_begin_ = 0, head_ = 0, stream_bytes_ = 0;
  Clock::time_point began_;
  std::optional<size_t> under_way_;  // the layer whose backward has begun
};

// Returns the bytes of parameters and optimizer, which are predicted, of the task's own tensors, and of the batches.
int64_t standing_bytes(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                       const ShardedModel& model, const MicroBatch& batch, bool on_gpu) {
  int64_t of_batch = 0, of_parameters = 0;
  for (const MemoryClass& part : memory_per_rank(config, table)) of_parameters += part.bytes;
  for (const Tensor& tensor : batch.tensors()) of_batch += static_cast<int64_t>(tensor.nbytes());
  const int64_t copies = on_gpu ? 3 : 1;  // the number of copies in the feed
  return of_parameters + model.bytes_of_task() + copies * config.micro_batches() * of_batch;
}

// Returns the maximum of each cost over ranks, because ranks have different batches and different parts of a graph.
StepCosts most_of(const std::vector<std::string>& of_ranks) {
  StepCosts most;
  for (const std::string& text : of_ranks) {
    const StepCosts costs = StepCosts::from_text(text);
    most.standing = std::max(most.standing, costs.standing);
    most.stream = std::max(most.stream, costs.stream);
    most.head = std::max(most.head, costs.head);
    most.layers.resize(costs.layers.size());
    for (size_t i = 0; i < costs.layers.size(); ++i) {
      for (size_t how = 0; how < costs.layers[i].size(); ++how) {
        LayerCost& way = most.layers[i][how];
        const LayerCost& other = costs.layers[i][how];
        way.kept = std::max(way.kept, other.kept);
        way.backward = std::max(way.backward, other.backward);
        way.milliseconds = std::max(way.milliseconds, other.milliseconds);
      }
    }
  }
  return most;
}

}  // namespace

StepCosts measure_layers(const TrainerConfig& config, sharding::Bootstrap& bootstrap) {
  sharding::set_position(0, "trial of layers");
  const at::Device device = bootstrap.device();
  const auto world = bootstrap.communicator();
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(*world, config.sharding);
  const auto task = make_task(config);
  const DeclaredModel declared = declared_model(config);
  const size_t layers =
      static_cast<size_t>(std::ranges::count(declared.groups, modules::Role::layer, &modules::ParameterGroup::role));
  Trial trial(device, layers);
  StepCosts costs;
  {
    ShardedModel model(
        config, *task, mesh,
        {.device = device,
         .around = [&](int64_t index, modules::Layer layer) { return trial.around(index, std::move(layer)); },
         .initialized = false,
         .recomputes = false});
    const auto options = at::dtype(at::kFloat).device(device);
    const Tensor scale = at::full({}, 1e-6, options), dropout_key = at::zeros({1}, options.dtype(at::kLong));
    const MicroBatch batch =
        to_device(task->training_batch(bootstrap.rank() * config.micro_batch, config.micro_batch), device);
    const auto run = [&] {
      AllocationMeter meter(device);
      trial.begin(meter);
      accumulate_gradients(
          *task, model, {batch}, scale, dropout_key, [](Phase) { return 0; }, [&] { trial.end(); });
    };
    costs.layers.resize(layers);
    const std::vector<int64_t> like = representatives(declared.modules, config.precision, config.kernels, layers);
    for (const Recompute how : {Recompute::full, Recompute::selective, Recompute::none}) {
      for (const int64_t layer : like) trial.set(static_cast<size_t>(layer), how);
      std::vector<LayerCost> best(layers, {0, 0, std::numeric_limits<double>::infinity()});
      for (int round = 0; round < kRounds; ++round) {
        run();
        for (size_t i = 0; i < layers; ++i) {
          const LayerCost& now = trial.cost(i);
          best[i] = {now.kept, now.backward, std::min(best[i].milliseconds, now.milliseconds)};
        }
        if (how == Recompute::full) costs.head = trial.head();
      }
      for (size_t i = 0; i < layers; ++i) {
        costs.layers[i][static_cast<size_t>(how)] = best[static_cast<size_t>(like[i])];
      }
    }
    for (auto& ways : costs.layers) {  // more recomputation never takes less time: a smaller number is noise
      for (size_t how = 1; how < ways.size(); ++how) {
        ways[how].milliseconds = std::max(ways[how].milliseconds, ways[how - 1].milliseconds);
      }
    }
    costs.stream = trial.stream_bytes();
    costs.standing = standing_bytes(config, declared.groups, model, batch, device.is_cuda());
  }
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
  return most_of(bootstrap.gather(costs.text()));
}

}  // namespace strata::trainer
