// SPDX-License-Identifier: MIT
// Records a few steps of a run and reports where their time goes. It wraps the training loop and each layer; a run that
// is not profiled has no Profiler.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "configs/range.h"
#include "modules/layer.h"
#include "trainer/profile/collective_waits.h"
#include "trainer/profile/profile_table.h"
#include "trainer/profile/recorded_steps.h"
#include "trainer/profile/recorder.h"

namespace strata::trainer::profile {

class Profiler {
 public:
  struct Options {
    configs::Range steps;
    // The first step with pruned weights. Steps before it and from it on have tables of their own.
    std::optional<int64_t> pruned_from = {};
    // The run's folder; its subfolder `profile` gets rank-0.txt, rank-0.jsonl and rank-0.trace.json. If it is empty,
    // nothing is written or printed.
    std::string folder;
    bool on_gpu = false;
    Device device = {};
    // Returns the texts of all ranks in rank order. All ranks call it at the same time, unless Device::one_group is
    // false.
    std::function<std::vector<std::string>(const std::string&)> gather;
    std::function<void(const std::string& table)> tell;  // prints the table on rank 0
  };
  explicit Profiler(Options options);

  // Wraps a layer, so that its work in forward and backward is attributed to the layer.
  modules::Layer wrap_layer(int64_t index, modules::Layer layer);

  // All host work of a step must lie between begin_step and end_step. `last_eager_step` is the last step before steps
  // are replays of a CUDA graph; its kernels give the replays' kernels their names. 0 means that all steps are eager.
  void begin_step(int64_t step, int64_t last_eager_step);
  // After the last recorded step, waits for the device and reports.
  void end_step(int64_t step);
  // Call this at the end of the run. It reports the recorded steps even if later ones are missing. A profile that
  // cannot be written is a warning on stderr.
  void finish();

  // The mean times of the reported steps, of the pruned ones alone if there are any. Empty before the report, and if
  // GPU work was not recorded.
  const std::optional<StepTimes>& mean_times() const { return mean_times_; }

 private:
  bool wanted(int64_t step) const;
  void stop_recording();
  // Every rank that began to record comes here, also if nothing was recorded on it, because it calls `gather`.
  void report();
  // The steps of one table, which are some of steps_, and what its ranks waited.
  struct TableSteps {
    std::span<const RecordedStep> steps;
    std::vector<RankWaits> waits = {};
  };
  // One table, or the dense steps and then the pruned ones. The number of tables is the same on all ranks.
  std::vector<TableSteps> tables() const;
  void write(const std::vector<TableSteps>& tables) const;

  const Options options_;
  Recorder recorder_;
  int64_t last_eager_step_ = 0;
  bool unreported_ = false;  // recording has begun, and report() was not called
  std::vector<LayerNodes> layers_;
  std::optional<at::RecordFunction> step_scope_;
  StepReader reader_;
  std::vector<RecordedStep> steps_;
  std::optional<StepTimes> mean_times_;
};

}  // namespace strata::trainer::profile
