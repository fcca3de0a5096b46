// SPDX-License-Identifier: MIT
#include "trainer/nonfinite_gradient.h"

#include <ATen/ops/isfinite.h>

#include <cmath>

#include "base/word_of.h"

namespace strata::trainer {
namespace {

using sharding::FlatLayout;
using sharding::ShardedParameterGroup;

// Returns the sentence of first_nonfinite for these gradients, which are those of the tensor or some of them; empty if
// all are finite.
std::string nonfinite_values(const at::Tensor& gradient, const FlatLayout::Entry& entry,
                             const ShardedParameterGroup& group, int rank) {
  const int64_t bad = gradient.numel() - at::isfinite(gradient).sum().item<int64_t>();
  if (bad == 0) return "";
  return "rank " + std::to_string(rank) + ": " + std::to_string(bad) + " of " + std::to_string(gradient.numel()) +
         " gradients of " + entry.name + " (group " + group.name() + ")";
}

// Returns a line for each sentence that is not empty.
std::string lines_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence.empty() ? "" : "\n  " + sentence;
  return text;
}

std::string remedy(const PrecisionConfig& precision, bool only_sums) {
  const bool sums_in_float16 = precision.reduce == FloatType::float16;
  if (only_sums && sums_in_float16) {
    return "\na sum above 65504 is infinite in float16 at any loss scale: set precision.reduce to float32 in a new "
           "run, or lower optimizer.learning_rate";
  }
  std::string text = "\nlower optimizer.learning_rate, or set run.on_nonfinite to skip";
  if (!precision.scales_loss()) return text;
  text += ", or compute in bfloat16";
  if (sums_in_float16) text += " and reduce in float32";
  return text + ": a number of float16 above 65504 is infinite in the forward too";
}

}  // namespace

std::string first_nonfinite(const ShardedParameterGroup& group, int rank) {
  for (size_t i = 0; i < group.full_gradients().size(); ++i) {
    const std::string found = nonfinite_values(group.full_gradients()[i], group.layout().entries()[i], group, rank);
    if (!found.empty()) return found;
  }
  return "";
}

std::string first_nonfinite_sum(ShardedParameterGroup& group, int rank) {
  std::string first;
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t, int64_t in_shard, int64_t count) {
    if (first.empty()) first = nonfinite_values(group.gradient().narrow(0, in_shard, count), entry, group, rank);
  });
  return first;
}

Error nonfinite_error(const NonfiniteStep& step, const PrecisionConfig& precision) {
  const std::string of_ranks = lines_of(step.of_ranks), of_sums = lines_of(step.of_sums);
  const bool only_sums = of_ranks.empty() && !of_sums.empty();
  std::string what = "a gradient is not finite", though, details;
  if (only_sums) {
    details = ". The gradients of each rank are finite, and their sums over ranks (precision.reduce: " +
              word_of(precision.reduce) + ") are not:" + of_sums;
  } else if (!of_ranks.empty()) {
    details = ". First, in the order of the backward, on each rank that has one:" + of_ranks;
  } else if (!std::isfinite(step.loss)) {
    what = "the loss is " + std::to_string(step.loss);
    though = ", though every gradient is finite";
  } else if (!std::isfinite(step.gradient_norm)) {
    what = "the gradient norm is " + std::to_string(step.gradient_norm);
    though = ", though every gradient is finite: the sum of their squares is above 3e38";
  } else {
    details = ". None was found when the step was run again: the cause does not repeat";
    if (!step.after_rollback) details += ", and run.on_nonfinite=rollback would go on from the newest checkpoint";
  }
  const std::string again = step.after_rollback ? ", also after a rollback" : "";
  return {ExitCode::numerics, "step " + std::to_string(step.step) + ": " + what + again + though +
                                  "; the update was left out" + details + remedy(precision, only_sums)};
}

Error skipped_too_often_error(int64_t step, int64_t skips) {
  return {ExitCode::numerics,
          "step " + std::to_string(step) + ": the last " + std::to_string(skips) +
              " updates were all skipped, because the loss or a gradient was not finite; run.on_nonfinite=stop names "
              "what is not finite; lower optimizer.learning_rate, or go on from an older checkpoint"};
}

}  // namespace strata::trainer
