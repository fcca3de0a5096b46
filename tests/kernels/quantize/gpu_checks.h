// SPDX-License-Identifier: MIT
// Bits and times of tensors on a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/quantile.h"

namespace strata::kernels {

// Also of NaN, and of tensors that both are undefined.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const at::ScalarType bits = a.element_size() == 4 ? at::kInt : at::kShort;
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.view(bits).equal(b.view(bits));
}

// Returns the seconds of one call of `run`: the mean of `calls` in a row.
inline double mean_seconds(const std::function<void()>& run, int calls) {
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  start.record();
  for (int call = 0; call < calls; ++call) run();
  end.record();
  end.synchronize();
  return start.elapsed_time(end) / static_cast<float>(calls) / 1e3;
}

// Returns the seconds of one call of `run`: the best of ten rounds of some calls.
inline double seconds_of(const std::function<void()>& run, int calls = 5) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) best = std::min(best, mean_seconds(run, calls));
  return best;
}

// Returns the seconds of one call of each of `runs`, the medians of rounds in which they take turns. The clock falls
// while a GPU works at the limit of its power, so what is timed later would seem slower.
inline std::vector<double> seconds_in_turn(const std::vector<std::function<void()>>& runs) {
  std::vector<std::vector<double>> samples(runs.size());
  for (int round = 0; round < 15; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) samples[i].push_back(mean_seconds(runs[i], /*calls=*/5));
  }
  std::vector<double> medians;
  for (const std::vector<double>& run_seconds : samples) medians.push_back(median(run_seconds));
  return medians;
}

}  // namespace strata::kernels
