// SPDX-License-Identifier: MIT
// The memory of a rank over the allocations of a step, as a picture: which classes take how much, and what lives at the
// peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/traced.h"
#include "trainer/prediction/memory_estimate.h"

namespace strata::trainer {

// The most bytes that the blocks of a trace take at once, and when.
struct PeakOfBlocks {
  int64_t event = 0;
  int64_t kept = 0;       // activations: allocated in a forward, and alive when the next place begins
  int64_t temporary = 0;  // all other blocks: what ops need while they run, gradients, workspaces
  std::vector<kernels::TracedBlock> largest;  // at most ten of those that live then, the largest first
};
PeakOfBlocks peak_of(const std::vector<kernels::TracedBlock>& blocks);

// Returns an SVG. `lasting` are the classes whose bytes do not change, and `blocks` come from trace_step.
std::string memory_timeline(const std::vector<MemoryClass>& lasting, const std::vector<kernels::TracedBlock>& blocks);

}  // namespace strata::trainer
