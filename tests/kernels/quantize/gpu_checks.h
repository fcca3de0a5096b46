// SPDX-License-Identifier: MIT
// Bits and times of tensors on a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace strata::kernels {

// Also of NaN, and of tensors that both are undefined.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const at::ScalarType bits = a.element_size() == 4 ? at::kInt : at::kShort;
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.view(bits).equal(b.view(bits));
}

// Returns the seconds of one call of `run`: the mean of `calls` in a row, in the best of ten rounds.
inline double seconds_of(const std::function<void()>& run, int calls = 5) {
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 10; ++i) {
    at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
    start.record();
    for (int call = 0; call < calls; ++call) run();
    end.record();
    end.synchronize();
    best = std::min(best, start.elapsed_time(end) / static_cast<float>(calls));
  }
  return best / 1e3;
}

}  // namespace strata::kernels
