// SPDX-License-Identifier: MIT
// Fuzzes the metrics.jsonl of a run that is resumed, of which the best evaluation is read. Lines that are no evaluation
// do not count.
#include "tests/fuzz/harness/input_files.h"
#include "trainer/report/best_evaluation.h"

namespace strata::fuzz {
namespace {

void parse(std::string_view bytes) {
  const trainer::Scalars best = trainer::BestEvaluation(write_input("metrics.jsonl", bytes)).values();
  require(best.empty() || best.size() == 3, "a part of an evaluation");
  require(best.empty() || best[0].second >= 0, "a negative step");
  if (best.empty()) throw Error(ExitCode::data, "metrics.jsonl: no evaluation");
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = "metrics.jsonl", .parse = parse};

}  // namespace strata::fuzz
