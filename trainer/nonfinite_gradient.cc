// SPDX-License-Identifier: MIT
#include "trainer/nonfinite_gradient.h"

#include <ATen/ops/isfinite.h>

#include <cmath>

namespace strata::trainer {

std::string first_nonfinite(const sharding::ShardedParameterGroup& group, int rank) {
  for (size_t i = 0; i < group.full_gradients().size(); ++i) {
    const at::Tensor& gradient = group.full_gradients()[i];
    const int64_t bad = gradient.numel() - at::isfinite(gradient).sum().item<int64_t>();
    if (bad == 0) continue;
    const auto& entry = group.layout().entries()[i];
    return "rank " + std::to_string(rank) + ": " + std::to_string(bad) + " of " + std::to_string(entry.elements) +
           " gradients of " + entry.name + " (group " + group.name() + ")";
  }
  return "";
}

Error nonfinite_error(int64_t step, float loss, const std::vector<std::string>& found, bool after_rollback,
                      bool in_float16) {
  const std::string again = after_rollback ? ", also after a rollback" : "";
  const std::string remedy =
      std::string("\nlower optimizer.learning_rate, or set run.on_nonfinite to skip") +
      (in_float16 ? ", or compute in bfloat16: a number of float16 above 65504 is infinite in the forward too" : "");
  std::string report;
  for (const std::string& sentence : found) report += sentence.empty() ? "" : "\n  " + sentence;
  if (report.empty() && !std::isfinite(loss)) {
    return {ExitCode::numerics, "step " + std::to_string(step) + ": the loss is " + std::to_string(loss) + again +
                                    ", though every gradient is finite; the update was left out" + remedy};
  }
  if (report.empty()) {
    report = "\n  none, when the step was run again: the cause does not repeat";
    if (!after_rollback) report += ", and run.on_nonfinite=rollback would go on from the newest checkpoint";
  }
  return {ExitCode::numerics, "step " + std::to_string(step) + ": a gradient is not finite" + again +
                                  "; the update was left out. First, in the order of the backward, on each rank that "
                                  "has one:" +
                                  report + remedy};
}

Error skipped_too_often_error(int64_t step, int64_t skips) {
  return {ExitCode::numerics,
          "step " + std::to_string(step) + ": the last " + std::to_string(skips) +
              " updates were all skipped, because the loss or a gradient was not finite; run.on_nonfinite=stop names "
              "what is not finite; lower optimizer.learning_rate, or go on from an older checkpoint"};
}

}  // namespace strata::trainer
