// SPDX-License-Identifier: MIT
// One run: the loop, and what it is made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "modules/config/kernel_selection.h"
#include "sharding/bootstrap.h"
#include "sharding/parameters/device_mesh.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/config/trainer_config.h"
#include "trainer/fault_injection.h"
#include "trainer/feed/bad_samples.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/optimizer.h"
#include "trainer/parallelize.h"
#include "trainer/profile/profiler.h"
#include "trainer/report/metrics.h"
#include "trainer/report/phase_timer.h"
#include "trainer/report/timed_communicator.h"
#include "trainer/run_state.h"
#include "trainer/step_graph.h"
#include "trainer/step_results.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// The only things that change from step to step, on the device.
struct StepInputs {
  std::vector<MicroBatch> micro_batches;
  Tensor learning_rate;  // fp32, 0-dim
  Tensor dropout_key;    // int64 [1]: mixes run.seed and the step
  Tensor stop;           // fp32, 0-dim: 1 when this rank was asked to stop
};

// What a benchmark wants to know of a run.
struct Measurement {
  int64_t items_per_sample = 0;
  GraphSizes graph = {};
  std::vector<double> milliseconds = {};            // of each step that counts
  std::vector<double> profiled_milliseconds = {};   // of the profiled steps behind them
  std::optional<profile::StepTimes> profiled = {};  // where their time went on this rank, means
  int64_t peak_memory_bytes = 0;
  int64_t device_allocations = 0;  // calls of cudaMalloc during the steps that count
  bool captured = false;           // the steps were replays of a CUDA graph
  float loss = 0;                  // of the last step
};

class Trainer {
 public:
  // `resolved` is the configuration as it is written into the run's folder.
  Trainer(const TrainerConfig& config, const std::string& resolved, sharding::Bootstrap& bootstrap);

  // Trains to the last step, or until it is asked to stop: the exit code says which.
  ExitCode train();

  // Takes `warm_up` steps and then `steps` that count, from the first of the schedule on, and further ones up to the
  // last that the configuration wants profiled. Of the run's folder nothing is read; a profile is all that is written,
  // and where run.folder is empty nothing is.
  Measurement measure(int64_t warm_up, int64_t steps);

 private:
  void start();
  std::vector<MicroBatch> read_batches(int64_t step) const;
  void next_step();
  void fill_inputs();
  void take_step();
  void run_step();  // capturable as a whole: touches no host value
  void update(const Tensor& local_loss);
  void look_at_results(bool all);
  void look_at(const StepResult& result);
  void evaluate_samples(int64_t samples);
  bool last_step_is_evaluated() const;
  void tell_bad_samples();
  void save();
  void finish_save(bool wait);
  [[noreturn]] void explain_skipped_update(int64_t step);
  std::unique_ptr<profile::Profiler> make_profiler();
  Tensor scalar(double value) const;  // fp32, 0-dim, on the device

  const TrainerConfig& config_;
  const std::string& resolved_;
  sharding::Bootstrap& bootstrap_;
  const at::Device device_;
  const Ranks ranks_;
  PhaseTimer timer_;
  TimedCommunicator world_;
  const sharding::DeviceMesh mesh_;
  const std::unique_ptr<Task> task_;
  BadSamples bad_samples_;
  FaultInjection fault_;
  const std::unique_ptr<profile::Profiler> profiler_;  // null: no step is profiled
  ShardedModel model_;
  const modules::KernelSelection kernels_;
  Optimizer optimizer_;
  std::string data_fingerprint_;                 // from start() on
  std::optional<CheckpointWriter> checkpoints_;  // from start() on
  std::optional<Metrics> metrics_;               // on rank 0, from start() on

  BatchFeed feed_;
  StepInputs inputs_;
  StepResults results_;
  std::optional<StepGraph> graph_;  // where steps are captured
  Tensor loss_scale_;               // fp32, 0-dim: 1 / items of a step
  Tensor updates_;                  // fp32, 0-dim: updates that were made
  Tensor halted_;                   // fp32, 0-dim: 1 once an update was left out and the run is to stop for it
  const Tensor one_;                // fp32, 0-dim
  int64_t step_ = 0, first_step_ = 0, last_step_;
  bool stop_ = false;
};

}  // namespace strata::trainer
