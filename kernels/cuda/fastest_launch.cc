// SPDX-License-Identifier: MIT
#include "kernels/cuda/fastest_launch.h"

#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace strata::kernels {
namespace {

constexpr size_t kFinalists = 6;
constexpr int kFinalRounds = 6;
constexpr float kNear = 1.06f;   // times the best run: candidates up to this time enter the long runs
constexpr float kLong = 250.0f;  // ms of one long run; its second half is timed

struct Entrant {
  size_t index;
  float milliseconds = std::numeric_limits<float>::infinity();
  bool operator<(const Entrant& other) const { return milliseconds < other.milliseconds; }
};

}  // namespace

float milliseconds_of(const LaunchCandidate& launch, size_t index, int launches) {
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  start.record();
  for (int i = 0; i < launches; ++i) launch(index);
  end.record();
  end.synchronize();
  return start.elapsed_time(end) / static_cast<float>(launches);
}

size_t fastest_launch(std::string_view op, size_t count, const LaunchCandidate& launch) {
  if (count == 1) return 0;
  std::vector<Entrant> entrants;
  for (size_t i = 0; i < count; ++i) {
    if (launch(i)) entrants.push_back({i});
  }
  TORCH_CHECK(!entrants.empty(), op, "/cuda: none of the algorithms runs");
  for (int round = 0; round <= kFinalRounds; ++round) {
    for (Entrant& entrant : entrants) {
      entrant.milliseconds = std::min(entrant.milliseconds, milliseconds_of(launch, entrant.index, 1));
    }
    std::stable_sort(entrants.begin(), entrants.end());
    if (entrants.size() > kFinalists) entrants.resize(kFinalists);
  }
  const float best = entrants.front().milliseconds;
  std::erase_if(entrants, [&](const Entrant& entrant) { return entrant.milliseconds > kNear * best; });
  if (best < kLongCall || entrants.size() == 1) return entrants.front().index;
  const int half = static_cast<int>(kLong / 2 / best) + 1;
  for (Entrant& entrant : entrants) {
    milliseconds_of(launch, entrant.index, half);
    entrant.milliseconds = milliseconds_of(launch, entrant.index, half);
  }
  return std::min_element(entrants.begin(), entrants.end())->index;
}

}  // namespace strata::kernels
