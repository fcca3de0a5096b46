// SPDX-License-Identifier: MIT
// Matches two sequences of kernels, of an eager step and of a CUDA graph's replay, by name and order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer::profile {

// Returns for each of `replayed` the increasing index of its match in `eager`, or -1. It finds the longest common
// subsequence. If that would take too long, it matches only the equal kernels at the start and at the end.
std::vector<int64_t> match_kernels(const std::vector<std::string>& eager, const std::vector<std::string>& replayed);

// Describes the difference in a sentence; empty if there is none.
std::string difference(const std::vector<std::string>& eager, const std::vector<std::string>& replayed,
                       const std::vector<int64_t>& matched);

}  // namespace strata::trainer::profile
