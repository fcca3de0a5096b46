// SPDX-License-Identifier: MIT
#include "trainer/profile/profiler.h"

#include <ATen/SequenceNumber.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>

#include "base/files/file_io.h"
#include "trainer/profile/profile_files.h"

namespace strata::trainer::profile {

Profiler::Profiler(Options options) : options_(std::move(options)), recorder_(options_.on_gpu) {}

modules::Layer Profiler::wrap_layer(int64_t index, modules::Layer layer) {
  return [this, index, layer = std::move(layer)](const modules::ResidualStream& stream,
                                                 const modules::StepContext& context) {
    if (!recorder_.recording()) return layer(stream, context);
    at::RecordFunction scope(at::RecordScope::USER_SCOPE);
    scope.before("layer " + std::to_string(index));
    const auto first = static_cast<int64_t>(at::sequence_number::peek());
    modules::ResidualStream output = layer(stream, context);
    layers_.push_back({index, static_cast<int64_t>(at::RecordFunction::currentThreadId()), first,
                       static_cast<int64_t>(at::sequence_number::peek())});
    return output;
  };
}

bool Profiler::wanted(int64_t step) const {
  return options_.steps.contains(step) || (step == last_eager_step_ && step < options_.steps.last);
}

void Profiler::begin_step(int64_t step, int64_t last_eager_step) {
  last_eager_step_ = last_eager_step;
  if (!wanted(step)) return;
  if (!recorder_.recording()) {
    // Earlier steps must have finished, so that their work is not recorded.
    if (options_.on_gpu) c10::cuda::device_synchronize();
    recorder_.start();
    unreported_ = true;
  }
  step_scope_.emplace(at::RecordScope::USER_SCOPE);
  step_scope_->before("step " + std::to_string(step));
}

void Profiler::end_step(int64_t step) {
  step_scope_.reset();
  if (!recorder_.recording() || wanted(step + 1)) return;
  stop_recording();
  if (step >= options_.steps.last) report();
}

void Profiler::finish() {
  step_scope_.reset();
  if (recorder_.recording()) stop_recording();
  if (unreported_) report();
}

void Profiler::stop_recording() {
  if (options_.on_gpu) c10::cuda::device_synchronize();
  Recording recording = recorder_.stop();
  recording.layers = std::exchange(layers_, {});
  for (RecordedStep& step : reader_.read(recording)) {
    if (!options_.steps.contains(step.number)) continue;
    step.pruned = options_.pruned_from && step.number >= *options_.pruned_from;
    steps_.push_back(std::move(step));
  }
}

void Profiler::report() {
  unreported_ = false;
  const bool recorded = !steps_.empty() && std::all_of(steps_.begin(), steps_.end(), [&](const RecordedStep& step) {
    return step.on_device == options_.on_gpu;
  });
  std::vector<TableSteps> tables = this->tables();
  if (recorded) mean_times_ = mean_of((tables.back().steps.empty() ? tables.front() : tables.back()).steps);
  if (options_.folder.empty()) return steps_.clear();
  if (options_.device.one_group) {
    for (TableSteps& table : tables) table.waits = divide(options_.gather(collective_times(table.steps)));
  }
  try {
    write(tables);
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    std::fprintf(stderr, "warning: rank %d cannot write its profile, and training goes on without it: %s\n",
                 options_.device.rank, reason.c_str());
  }
  steps_.clear();
}

std::vector<Profiler::TableSteps> Profiler::tables() const {
  const std::optional<int64_t> border = options_.pruned_from;
  if (!border || *border <= options_.steps.first || *border > options_.steps.last) return {{.steps = steps_}};
  const auto first_pruned = std::ranges::find(steps_, true, &RecordedStep::pruned);
  return {{.steps = {steps_.begin(), first_pruned}}, {.steps = {first_pruned, steps_.end()}}};
}

void Profiler::write(const std::vector<TableSteps>& tables) const {
  const std::filesystem::path folder = std::filesystem::path(options_.folder) / "profile";
  const std::string name = folder / ("rank-" + std::to_string(options_.device.rank));
  std::string text;
  for (const TableSteps& table : tables) {
    if (table.steps.empty()) continue;  // the run was resumed after its steps, or ended before them
    text += (text.empty() ? "" : "\n") + profile_table(table.steps, options_.device, table.waits);
  }
  if (text.empty()) text = profile_table({}, options_.device, {});
  if (reader_.without_launch() > 0) {
    text += "\n" + std::to_string(reader_.without_launch()) + " kernels have no recorded launch and are in no step\n";
  }
  if (options_.device.rank == 0) options_.tell(text);
  std::filesystem::create_directories(folder);
  replace_file(name + ".jsonl", json_lines(steps_, options_.device));
  replace_file(name + ".trace.json", chrome_trace(steps_, options_.device));
  replace_file(name + ".txt", text);
}

}  // namespace strata::trainer::profile
