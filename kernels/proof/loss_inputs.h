// SPDX-License-Identifier: MIT
// Targets and sizes that the proofs of cross_entropy and linear_cross_entropy share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace strata::kernels {

inline constexpr int64_t kIgnored = -100;
inline constexpr double kLossScale = 0.125, kSmoothing = 0.1;
inline constexpr double kLogitSoftcap = 1.5;  // many logits of the cases are larger

// Pairs of rows and classes.
inline constexpr std::array<std::pair<int64_t, int64_t>, 4> kLossSizes = {{{9, 5}, {40, 257}, {1, 11}, {0, 7}}};

inline std::string loss_case_name(const std::string& prefix, int64_t rows, int64_t classes, double smoothing) {
  return prefix + std::to_string(rows) + "x" + std::to_string(classes) + (smoothing == 0 ? "" : "_smoothed");
}

inline at::Tensor loss_targets(int64_t rows, int64_t classes) {
  const at::Tensor targets = at::randint(0, classes, {rows}, at::kLong);
  if (rows > 2) targets[2].fill_(kIgnored);
  return targets;
}

// Returns targets of rows that are all ignored, as a micro-batch of padding has them.
inline at::Tensor ignored_targets(int64_t rows) { return at::full({rows}, kIgnored, at::kLong); }

// Returns targets of which half are the classes with the largest logits.
inline at::Tensor likely_targets(const at::Tensor& logits) {
  const int64_t rows = logits.size(0);
  const at::Tensor targets = loss_targets(rows, logits.size(1)), largest = logits.argmax(1);
  targets.slice(0, 0, rows, /*step=*/4).copy_(largest.slice(0, 0, rows, /*step=*/4));
  targets.slice(0, 1, rows, /*step=*/4).copy_(largest.slice(0, 1, rows, /*step=*/4));
  return targets;
}

}  // namespace strata::kernels
