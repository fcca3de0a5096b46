// SPDX-License-Identifier: MIT
// The evaluation with the best validation_accuracy, and how accurate the model was then on data that choose nothing.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/report/event_file.h"

namespace strata::trainer {

class BestEvaluation {
 public:
  // Begins with the evaluations that are in metrics.jsonl, of the part of a run that is resumed.
  explicit BestEvaluation(const std::string& metrics_file);

  // Those without a test_accuracy do not count; of equally good ones the first does.
  void see(int64_t step, const Scalars& values);
  // Step, validation_accuracy and test_accuracy of the best one; nothing where none counts.
  Scalars values() const;

 private:
  int64_t step_ = -1;
  double validation_accuracy_ = 0, test_accuracy_ = 0;
};

}  // namespace strata::trainer
