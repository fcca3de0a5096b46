// SPDX-License-Identifier: MIT
#include "trainer/step/nonfinite_gradient.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>

#include "base/text/word_of.h"

namespace strata::trainer {
namespace {

using sharding::FlatLayout;
using sharding::ShardedParameterGroup;

// Returns the sentence of first_nonfinite for these gradients, all or some of the elements of the tensor; empty if
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

// The end of each sentence of first_nonfinite_sum.
std::string summed_in(FloatType type) { return ", summed in " + word_of(type); }

bool has_sum_in_float16(const NonfiniteStep& step) {
  return std::ranges::any_of(step.sum_findings,
                             [](const auto& sentence) { return sentence.ends_with(summed_in(FloatType::float16)); });
}

std::string remedy(const NonfiniteStep& step, const PrecisionConfig& precision, bool only_sums) {
  if (only_sums && has_sum_in_float16(step)) {
    return "\na sum above 65504 is infinite in float16, and the loss scale is already 1 or less: set precision.reduce "
           "to float32 in a new run, or lower optimizer.learning_rate";
  }
  std::string text = "\nlower optimizer.learning_rate, or set run.on_nonfinite to skip";
  if (only_sums || !precision.scales_loss()) return text;
  text += ", or compute in bfloat16";
  if (precision.reduce == FloatType::float16) text += " and reduce in float32";
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

std::string first_nonfinite_sum(ShardedParameterGroup& group, int rank, FloatType type) {
  std::string first;
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t, int64_t shard_offset, int64_t count) {
    if (first.empty()) first = nonfinite_values(group.gradient().narrow(0, shard_offset, count), entry, group, rank);
  });
  return first.empty() ? first : first + summed_in(type);
}

Error nonfinite_error(const NonfiniteStep& step, const PrecisionConfig& precision) {
  const std::string rank_findings = lines_of(step.rank_findings), sum_findings = lines_of(step.sum_findings);
  const bool bad_loss = !std::isfinite(step.loss), bad_sums = rank_findings.empty() && !sum_findings.empty();
  std::string what = bad_loss ? "the loss is " + std::to_string(step.loss) : "a gradient is not finite";
  std::string though, details;
  if (bad_sums) {
    details = ". The gradients of each rank are finite, and their sums over ranks are not:" + sum_findings;
  } else if (!rank_findings.empty()) {
    details = std::string(bad_loss ? ". Gradients are not finite either." : ".") +
              " First, in the order of the backward, on each rank that has one:" + rank_findings;
  } else if (bad_loss) {
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
                                  "; the update was left out" + details +
                                  remedy(step, precision, bad_sums && !bad_loss)};
}

Error skipped_too_often_error(int64_t step, int64_t skips) {
  return {ExitCode::numerics,
          "step " + std::to_string(step) + ": the last " + std::to_string(skips) +
              " updates were all skipped, because the loss or a gradient was not finite; run.on_nonfinite=stop names "
              "what is not finite; lower optimizer.learning_rate, or go on from an older checkpoint"};
}

}  // namespace strata::trainer
