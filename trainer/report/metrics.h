// SPDX-License-Identifier: MIT
// Reports the progress of a run: metrics.jsonl, a TensorBoard event file, and lines on the console. Only rank 0 uses
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/record_file.h"
#include "trainer/report/best_evaluation.h"
#include "trainer/report/console.h"
#include "trainer/report/event_file.h"
#include "trainer/report/spike_watch.h"
#include "trainer/report/straggler_watch.h"

namespace strata::trainer {

struct StepRecord {
  int64_t step = 0;
  float loss = 0;
  float gradient_norm = 0;
  double learning_rate = 0;
  int64_t items = 0;        // tokens, images or nodes of the whole step
  double milliseconds = 0;  // from the end of the previous step
  int64_t memory_bytes = 0;
  bool skipped = false;                  // the update was skipped because the loss or a gradient was not finite
  std::optional<float> loss_scale = {};  // nothing if the loss is not scaled
  Scalars phases = {};                   // milliseconds of data, forward, ...; the table sums all steps but the first
};

struct EvaluationRecord {
  int64_t step = 0;
  Scalars values;  // validation_loss, bits_per_byte, validation_accuracy, test_accuracy, ...
};

// What an evaluation shows of one validation sample.
struct SampleRecord {
  using List = std::pair<std::string, std::span<const double>>;
  int64_t step = 0;
  int64_t sample = 0;
  std::vector<List> values;  // tokens, losses, ...: one number for each item
};

// The time for which the training thread stood still for a save.
struct SaveRecord {
  int64_t step = 0;
  double milliseconds = 0;  // the whole time
  double waited = 0;        // the part of these milliseconds in which it waited for the previous save
};

class Metrics {
 public:
  struct Options {
    std::string folder;         // the run's folder
    int64_t resumed_step = -1;  // -1 for a new run; records of later steps are cut off
    int64_t last_step = 0;
    int64_t log_every = 10;
    std::string item = "tokens";  // name of the rate: tokens/s, tokens_per_second
    double flops_per_item = 0;    // model FLOPs of forward and backward that a rank computes
    Console::Options console = {};
  };
  explicit Metrics(const Options& options);

  // Each record is one line in metrics.jsonl: {"step":...,...}. A number that is not finite becomes null.
  void record_step(const StepRecord& record);
  // The evaluation of the last step also reports the best evaluation, if there are test data.
  void record_evaluation(EvaluationRecord record);
  // Writes a line of samples.jsonl: {"step":...,"sample":...,"tokens":[...],...}. Integers are written without a point,
  // and other numbers as fp32. The file exists from the first line on.
  void record_sample(const SampleRecord& record);
  // True if metrics.jsonl has an evaluation of this step.
  bool has_evaluation(int64_t step) const;
  void record_weights(int64_t step, std::string_view weights_sha256);
  // Reports that the save of a step has begun: the copy is made or, on GPUs, queued.
  void record_save_begin(const SaveRecord& record);
  // Writes, in step `step`, that the checkpoint of an earlier or this step is finished. The next start then knows that
  // a folder without checkpoints has lost them.
  void record_checkpoint_written(int64_t step, int64_t checkpoint);

  // Reports the step from which the run resumes, after `notes` about other checkpoints, which are warnings.
  void record_resume(const std::vector<std::string>& notes);

  // The same for a run that went back because step `from` was not finite. Without a checkpoint it goes back to step 0.
  void record_rollback(int64_t from, const std::vector<std::string>& notes);

  // Reports a sample that cannot be used: file and reason. The name of the file may contain any bytes.
  void record_bad_sample(int64_t step, const std::string& line);

  // Reports a rank for which the others wait.
  void record_straggler(int64_t step, const Straggler& straggler);

  // Reports a loss or gradient norm that is far above the usual one.
  void record_spike(int64_t step, const Spike& spike);

  // Prints another line on the console without disturbing the progress line.
  void note(std::string_view line) {
    if (!line.empty()) console_.line(line);
  }
  void warn(std::string_view line) { console_.warning(line); }

  // Adds to the table what came after the last step: milliseconds of its evaluation and of its save.
  void record_last_phases(const Scalars& phases);

  // Returns milliseconds and share of each phase, as means over all steps but the first. The table is empty before the
  // second step, and if phases are not timed.
  std::string phase_table() const;

 private:
  struct StepRates {
    std::string name;  // "tokens_per_second"
    double items, teraflops;
  };
  StepRates rates_of(const StepRecord& record) const;
  std::string json_line(const StepRecord& record) const;
  Scalars scalars_of(const StepRecord& record) const;  // for TensorBoard
  std::string console_line(const StepRecord& record) const;
  void add_to_table(const Scalars& phases);
  void open_samples(uint64_t keep);  // the bytes that stay

  Options options_;
  Console console_;
  RecordFile json_;
  std::optional<RecordFile> samples_;
  EventFile events_;
  BestEvaluation best_;
  int64_t items_since_line_ = 0, steps_since_line_ = 0;
  double milliseconds_since_line_ = 0;
  int64_t timed_steps_ = -1;  // the first step is not counted, because it includes initialization and warm-up
  Scalars phase_sums_;
  double milliseconds_sum_ = 0;
};

}  // namespace strata::trainer
