// SPDX-License-Identifier: MIT
// Two sequences of kernels, of an eager step and of a graph's replay, matched by their names and their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer::profile {

// For each of `replayed` the index in `eager` that it is matched with, or -1; indices rise. As many as possible are
// matched, unless the sequences differ so much that it would take too long: then those in front of the first
// difference and behind the last one.
std::vector<int64_t> match(const std::vector<std::string>& eager, const std::vector<std::string>& replayed);

// How the two differ, in a sentence; empty: not at all.
std::string difference(const std::vector<std::string>& eager, const std::vector<std::string>& replayed,
                       const std::vector<int64_t>& matched);

}  // namespace strata::trainer::profile
