// SPDX-License-Identifier: MIT
// fastest_launch: which of several ways to compute one product takes the least time on this GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace strata::kernels {

// Calls that take this long bring a GPU to its power limit, where its clock depends on how much power an algorithm
// needs. The algorithm with the fastest single run is then not the fastest in the long run. A step of Llama 1B takes
// 229.0 ms with the algorithms that are fastest in the long run, 231.6 with those of the best single runs (6 layers,
// H200 at 690 W and 1480 of 1980 MHz).
inline constexpr float kLongCall = 1.0f;  // ms

// Launches candidate `index` on the current stream. Returns false, and launches nothing, if it does not run here.
using LaunchCandidate = std::function<bool(size_t index)>;

// Returns the mean time of `launches` launches of a candidate.
float milliseconds_of(const LaunchCandidate& launch, size_t index, int launches);

// Returns the index of the fastest of `count` candidates. The clock of a GPU falls while it multiplies, so candidates
// run in turns and each keeps its best run. If the best run takes kLongCall or more, the finalists are timed again in
// long runs. Throws a c10::Error, which begins with `op`, if no candidate runs.
size_t fastest_launch(std::string_view op, size_t count, const LaunchCandidate& launch);

}  // namespace strata::kernels
