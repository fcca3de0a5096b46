// SPDX-License-Identifier: MIT
// Watches a few steps of a run and reports where their time goes. It goes around the loop and around each layer;
// a run that is not profiled has none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "configs/range.h"
#include "modules/layer.h"
#include "trainer/profile/recorder.h"
#include "trainer/profile/steps.h"
#include "trainer/profile/table.h"

namespace strata::trainer::profile {

class Profiler {
 public:
  struct Options {
    configs::Range steps;
    // Of the run; its subfolder profile gets rank-0.txt, rank-0.jsonl and rank-0.trace.json. Empty: nothing is written
    // and nothing told.
    std::string folder;
    bool on_gpu = false;
    Device device = {};
    // All ranks' texts in rank order; all of them call it at the same time, unless Device::one_group is false.
    std::function<std::vector<std::string>(const std::string&)> gather;
    std::function<void(const std::string& table)> tell;  // on rank 0
  };
  explicit Profiler(Options options);

  // A layer whose work is known as its own, in forward and backward.
  modules::Layer around(int64_t index, modules::Layer layer);

  // Between them lies all that the host does for a step. `last_eager_step`: the one before steps are replays of a
  // graph, whose kernels it names; 0: all steps are eager.
  void begin_step(int64_t step, int64_t last_eager_step);
  // After the last of the steps it waits for the device and reports.
  void end_step(int64_t step);
  // The run is over: what was recorded of the steps is reported, though they are not all there.
  void finish();

  // Of the steps that were reported; nothing before, and where the work of a GPU was not recorded.
  const std::optional<StepTimes>& mean_times() const { return mean_times_; }

 private:
  bool wanted(int64_t step) const;
  void stop_recording();
  void report();
  void write();

  const Options options_;
  Recorder recorder_;
  int64_t last_eager_step_ = 0;
  std::vector<LayerNodes> layers_;
  std::optional<at::RecordFunction> step_scope_;
  StepReader reader_;
  std::vector<Step> steps_;
  std::optional<StepTimes> mean_times_;
};

}  // namespace strata::trainer::profile
