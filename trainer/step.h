// SPDX-License-Identifier: MIT
// One training step: inputs, forward, backward and update. It runs as a CUDA graph if it can be captured.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "modules/config/kernel_selection.h"
#include "sharding/parameters/device_mesh.h"
#include "sharding/rank_session.h"
#include "trainer/checkpoint/update_gate.h"
#include "trainer/config/trainer_config.h"
#include "trainer/faults/fault_injection.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/ledger/data_hash.h"
#include "trainer/ledger/step_observer.h"
#include "trainer/model/pruned_decay.h"
#include "trainer/model/sharded_model.h"
#include "trainer/optimizer.h"
#include "trainer/profile/profiler.h"
#include "trainer/replicas/replica_hash.h"
#include "trainer/report/phase_timer.h"
#include "trainer/report/timed_communicator.h"
#include "trainer/step/captured_step.h"
#include "trainer/step/loss_scale.h"
#include "trainer/step/nonfinite_gradient.h"
#include "trainer/step/step_results.h"
#include "trainer/step/update_decision.h"
#include "trainer/step/work_times.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

// The values that the host sets before each step. They are on the device.
struct StepInputs {
  std::vector<MicroBatch> micro_batches;
  Tensor learning_rate;  // fp32, 0-dim
  Tensor dropout_key;    // int64 [1], made from run.seed and the step
};

class Step {
 public:
  // `note` receives lines about the run and the tables of a profile, on rank 0. `observer` may be null. It must outlive
  // this object.
  Step(const TrainerConfig& config, sharding::RankSession& session, std::function<void(const std::string&)> note,
       StepObserver* observer = nullptr);

  // `rehearse` does the work between steps that takes most memory. It runs once before steps are captured: a captured
  // step keeps its memory, and this work must fit beside it. Collective.
  void set_rehearsal(std::function<void()> rehearse) { rehearse_ = std::move(rehearse); }
  // Does work between steps that allocates. Throws Error (out_of_memory) with the table if the GPU refuses memory.
  void with_memory_report(const std::function<void()>& work) const;
  // Continues after `step` steps with `updates` updates of the weights.
  void resume_after(int64_t step, int64_t updates, const std::optional<LossScale::State>& loss_scale);
  // All steps from now on have the samples of the next one, so that none of them waits for its data.
  void repeat_batches() { feed_.repeat(); }
  // Queues the next step. Its number is number() afterwards.
  void queue_next();
  int64_t number() const { return number_; }
  // See StepResults::next.
  std::optional<StepResult> next_result(bool all) { return results_.next(all); }
  // Returns the hash of the data that this rank read for one of the last steps.
  uint64_t data_hash(int64_t step) const { return data_hashes_.of(step); }
  // True if StepResult::hashes of the step `number` has hashes of the weights with which it began.
  bool compares_replicas(int64_t number) const;
  // Returns the hashes of the present weights of all ranks; empty if they are not compared. It waits. Collective.
  std::vector<float> exchange_hashes();
  // Runs the step `number` again, whose update was skipped, to name the gradient or the loss that is not finite.
  // If run.on_nonfinite is rollback, it was not finite before a rollback either.
  [[noreturn]] void explain_skipped_update(int64_t number);

  // On GPUs, the next updates wait until `copies` has done its queued work, which reads the shards.
  void hold_updates_for(const c10::cuda::CUDAStream& copies) { update_gate_.close_until_done(copies); }

  int64_t updates() const { return static_cast<int64_t>(updates_.item<float>()); }
  // Nothing unless the loss is scaled. It waits for the device.
  std::optional<LossScale::State> loss_scale() const;
  bool is_captured() const { return captured_step_ && captured_step_->is_captured(); }
  Task& task() const { return *task_; }
  const StepItems& items() const { return items_; }
  ShardedModel& model() { return model_; }
  Optimizer& optimizer() { return optimizer_; }
  const sharding::DeviceMesh& mesh() const { return mesh_; }
  sharding::Communicator& world() { return world_; }
  PhaseTimer& timer() { return timer_; }
  profile::Profiler* profiler() const { return profiler_.get(); }  // null: no step is profiled

 private:
  std::unique_ptr<profile::Profiler> make_profiler() const;
  void choose_capture();  // throws Error (configuration) if cuda_graph is on and steps cannot be captured
  void fill_inputs();
  void run_or_replay();
  void rehearse();
  void run();  // reads no value on the host, so that it can be captured as a whole
  void update(const Tensor& local_loss);
  void begin_pruning();  // if the step to queue is the first that prunes
  void add_pruned_decay();
  void observe_gradients();  // sets what each step does before gradients are reduced: faults, then the observer
  NonfiniteStep find_nonfinite(int64_t number);
  Tensor counted_items() const;       // items of this rank in this step, fp32, 0-dim
  Tensor scalar(double value) const;  // fp32, 0-dim, on the device

  const TrainerConfig& config_;
  sharding::RankSession& session_;
  const at::Device device_;
  PhaseTimer timer_;
  TimedCommunicator world_;
  const sharding::DeviceMesh mesh_;
  const std::function<void(const std::string&)> note_;
  const std::unique_ptr<Task> task_;
  const FindsBadSamples* const bad_sample_finder_;  // the task, or null if all samples can be used
  const HasIgnoredItems* const ignored_items_;      // the task, or null if all items of a sample have a loss
  const StepItems items_;
  FaultInjection fault_;
  const std::unique_ptr<profile::Profiler> profiler_;
  StepObserver* const observer_;
  ShardedModel model_;
  const modules::KernelSelection kernels_;
  Optimizer optimizer_;
  const PrunedDecay pruned_decay_;
  std::optional<LossScale> loss_scale_;  // set if something computes in float16
  UpdateGate update_gate_;
  ReplicaHash replica_hash_;

  DataHashes data_hashes_;  // before the feed, whose threads use it
  BatchFeed feed_;
  StepInputs inputs_;
  WorkTimes work_times_;
  StepResults results_;
  std::function<void()> rehearse_ = [] {};
  std::optional<CapturedStep> captured_step_;  // set if steps are captured
  Tensor mean_factor_;                         // fp32, 0-dim: 1 / items of a step
  Tensor updates_;                             // fp32, 0-dim: number of applied updates
  UpdateDecider decider_;
  const Tensor stop_;                 // see stop_request_on: the step reads it right before it is summed
  const Tensor one_;                  // fp32, 0-dim
  int64_t number_ = 0;                // number of the last queued step
  int64_t resumed_after_ = 0;         // number of the step after which this process began; 0: from the start
  int64_t warm_up_begins_after_ = 0;  // the warm-up steps before a capture begin after this step
};

}  // namespace strata::trainer
