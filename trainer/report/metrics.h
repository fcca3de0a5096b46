// SPDX-License-Identifier: MIT
// What a run tells while it trains: metrics.jsonl, a TensorBoard event file, and lines on the console. On rank 0 only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/append_file.h"
#include "trainer/report/best_evaluation.h"
#include "trainer/report/console.h"
#include "trainer/report/event_file.h"

namespace strata::trainer {

struct StepRecord {
  int64_t step = 0;
  float loss = 0;
  float gradient_norm = 0;
  double learning_rate = 0;
  int64_t items = 0;        // tokens, images, nodes of the whole step
  double milliseconds = 0;  // from the end of the step before
  int64_t memory_bytes = 0;
  bool skipped = false;  // the update was left out: a gradient was not finite
  Scalars phases =
      {};  // milliseconds of data, forward, backward, ...; other than the first step's they go into the table
};

struct EvaluationRecord {
  int64_t step = 0;
  Scalars values;  // validation_loss, bits_per_byte, validation_accuracy, test_accuracy, ...
};

class Metrics {
 public:
  struct Options {
    std::string folder;         // of the run
    int64_t resumed_step = -1;  // -1: a new run. What the files say of later steps is cut off.
    int64_t last_step = 0;
    int64_t log_every = 10;
    std::string item = "tokens";  // names the rate: tokens/s, tokens_per_second
    double flops_per_item = 0;    // of the model, forward and backward, that a rank computes
    Console::Options console = {};
  };
  explicit Metrics(const Options& options);

  // One line in metrics.jsonl each: {"step":...,...}. A number that is not finite becomes null.
  void step(const StepRecord& record);
  // The last one says besides which was the best, where there is data for a test.
  void evaluation(EvaluationRecord record);
  // Whether metrics.jsonl has one of this step.
  bool has_evaluation(int64_t step) const;
  void weights(int64_t step, std::string_view weights_sha256);

  // From where the run goes on, after what was found to be wrong with other checkpoints.
  void resumed(const std::vector<std::string>& notes);

  // A sample that cannot be used: file and reason, in whatever bytes the file's name has.
  void bad_sample(int64_t step, const std::string& line);

  // Any other line for the console, which the progress line must not disturb.
  void note(std::string_view line) {
    if (!line.empty()) console_.line(line);
  }
  void warn(std::string_view line) { console_.warning(line); }

  // Milliseconds and share of each phase, as the mean over all steps but the first; empty before the second, and where
  // no phases are timed.
  std::string phase_table() const;

 private:
  Options options_;
  Console console_;
  AppendFile json_;
  EventFile events_;
  BestEvaluation best_;
  int64_t items_since_line_ = 0, steps_since_line_ = 0;
  double milliseconds_since_line_ = 0;
  int64_t timed_steps_ = -1;  // the first one is not counted: it builds and warms up
  Scalars phase_sums_;
  double milliseconds_sum_ = 0;
};

}  // namespace strata::trainer
