// SPDX-License-Identifier: MIT
// Finds the evaluation with the best validation_accuracy, and its accuracy on the test data, which do not influence the
// choice.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/report/event_file.h"

namespace strata::trainer {

class BestEvaluation {
 public:
  // Starts with the evaluations in metrics.jsonl, which a resumed run made before.
  explicit BestEvaluation(const std::string& metrics_file);

  // Evaluations without a test_accuracy do not count. Of equally good ones, the first counts.
  void add(int64_t step, const Scalars& values);
  // Returns step, validation_accuracy and test_accuracy of the best evaluation, or nothing if there is none.
  Scalars values() const;

 private:
  int64_t step_ = -1;
  double validation_accuracy_ = 0, test_accuracy_ = 0;
};

}  // namespace strata::trainer
