// SPDX-License-Identifier: MIT
// What it costs a layer to keep or to compute again, as measured, and the choice that follows from it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// One layer in one of the ways of Recompute.
struct LayerCost {
  int64_t kept = 0;         // bytes that its forward leaves, its outputs included
  int64_t backward = 0;     // bytes that its backward needs besides what was there when it began, at most
  double milliseconds = 0;  // of its backward, with what it computes again
};

struct StepCosts {
  int64_t standing = 0;                          // bytes of parameters, optimizer and batches
  int64_t stream = 0;                            // bytes of one tensor of the stream between layers
  int64_t head = 0;                              // bytes that head and loss need besides what layers keep, at most
  std::vector<std::array<LayerCost, 3>> layers;  // by layer, then by Recompute

  std::string text() const;
  static StepCosts from_text(const std::string& text);
};

using LayerChoice = std::vector<Recompute>;

// The most bytes at once of a step in which layers do as `choice` says.
int64_t most_bytes(const StepCosts& costs, const LayerChoice& choice);

// The choice of the least time among those that fit into `bytes` and in which the first layers compute all again, the
// next ones selectively, the rest nothing: the backward of the first comes when the others have given their memory
// back. Nothing when none fits.
std::optional<LayerChoice> cheapest_that_fits(const StepCosts& costs, int64_t bytes);
// What would fit.
int64_t least_bytes(const StepCosts& costs);

// As a configuration says it: a word, or a list of ranges.
GradientCheckpointing as_config(const LayerChoice& choice);

}  // namespace strata::trainer
