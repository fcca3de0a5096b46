// SPDX-License-Identifier: MIT
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>

#include "kernels/runtime/device_name.h"
#include "modules/config/model_config.h"
#include "tools/promise/measurements.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/start_rank.h"

namespace strata::tools {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostRanks = 1024;  // most ranks of one machine

// The data are read for it. A machine on which a run is only planned may not have them.
std::optional<int64_t> evaluation_samples(const trainer::TrainerConfig& config) {
  try {
    return make_task(config)->evaluation_samples();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

ordered_json or_null(const std::optional<int64_t>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// The samples of an evaluation of `tokens` tokens, or of all validation data if it is 0 (trainer/run_evaluations.cc).
std::optional<int64_t> samples_of(int64_t tokens, int64_t items, const std::optional<int64_t>& all) {
  const int64_t wanted = tokens / items;
  if (wanted == 0) return all;
  return all ? std::min(wanted, *all) : wanted;
}

// A trace reports linear layers of these kinds as products in precision.compute, whose times are not theirs.
ordered_json ops_without_times(const modules::LinearFormatsConfig& formats, const modules::SparsityConfig& sparsity) {
  ordered_json names = ordered_json::array();
  if (formats.format != modules::LinearFormat::none) names.push_back("linear layers in " + formats.text());
  if (sparsity.is_on()) names.push_back("linear layers with pruned weights");
  return names;
}

// The threads of a rank if this machine has 1, 2, ... ranks.
ordered_json threads_of_ranks(const trainer::RunConfig& run) {
  ordered_json threads = ordered_json::array();
  for (int64_t ranks = 1; ranks <= std::min(run.ranks, kMostRanks); ++ranks) threads.push_back(threads_of(run, ranks));
  return threads;
}

}  // namespace

ordered_json key_of(const trainer::OpCalls& calls) {
  return {{"op", calls.shape.op()},
          {"shape", calls.shape.text()},
          {"level", kernels::name(calls.level)},
          {"dtype", c10::toString(calls.dtype)},
          {"input_gradient", calls.input_gradient}};
}

ordered_json promise_facts(const trainer::TrainerConfig& config, at::Device device, trainer::StepCalls& calls) {
  const std::unique_ptr<trainer::Task> task = trainer::task_to_trace(config);
  const trainer::StepTrace trace = trace_step(config, *task, /*rank=*/0, &calls);
  const trainer::PeakMemory peak(config);
  const int64_t items = task->items_per_sample();

  ordered_json ops = ordered_json::array(), collectives = ordered_json::array(), memory = ordered_json::array();
  for (const trainer::OpCalls& call : calls.ops) {
    ordered_json row = key_of(call);
    row["part"] = trainer::kStepPartNames[static_cast<size_t>(call.part)];
    row["calls"] = call.calls;
    ops.push_back(row);
  }
  for (const trainer::CollectiveCalls& call : calls.collectives) {
    collectives.push_back({{"operation", sharding::name(call.operation)},
                           {"bytes", call.bytes},
                           {"ranks", call.ranks},
                           {"part", trainer::kStepPartNames[static_cast<size_t>(call.part)]},
                           {"calls", call.calls}});
  }
  for (const trainer::MemoryClass& part : peak.classes(trace)) {
    memory.push_back({{"name", part.name}, {"bytes", part.bytes}});
  }
  const std::optional<int64_t> all = evaluation_samples(config);
  return {{"device", kernels::device_name(device)},
          {"is_gpu", device.is_cuda()},
          {"torch", kernels::torch_version()},
          {"kernels", kernels::kernel_version()},
          {"item", task->item_name()},
          {"ranks", config.run.ranks},
          {"threads_of_ranks", threads_of_ranks(config.run)},
          {"steps", config.run.stop_after > 0 ? std::min(config.steps, config.run.stop_after) : config.steps},
          {"items_per_step", config.batch * items},
          {"micro_batches", config.micro_batches()},
          {"layers", modules::layer_count(config.model)},
          {"samples_per_round", config.global_micro_batch()},
          {"evaluation_every", config.evaluation.every},
          {"evaluation_samples", or_null(samples_of(config.evaluation.tokens, items, all))},
          {"final_samples", or_null(samples_of(config.evaluation.final_tokens, items, all))},
          {"checkpoint_every", config.checkpoint.every},
          {"saved_bytes", peak.save_bytes()},
          {"saving_ranks", config.sharding.ranks_per_copy(config.run.ranks)},
          {"memory", memory},
          {"memory_margin", peak.margin(trace)},
          {"ops_without_times", ops_without_times(config.precision.linear, config.sparsity)},
          {"ops", ops},
          {"collectives", collectives}};
}

}  // namespace strata::tools
