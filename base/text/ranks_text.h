// SPDX-License-Identifier: MIT
// Names ranks in messages: "rank 1", "ranks 0 and 2", "ranks 0-63" or "ranks 0, 8, 16, 24 and 60 more".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata {

// `ranks` is sorted and has at least one rank. Three or more without a gap are a range. More than eight with gaps are
// counted after the first four.
inline std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8, kShown = 4;
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  if (ranks.size() > 2 && ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size())) {
    return "ranks " + std::to_string(ranks.front()) + "-" + std::to_string(ranks.back());
  }
  const bool shortens = ranks.size() > kMost;
  const size_t shown = shortens ? kShown : ranks.size() - 1;
  std::string text = "ranks ";
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text + " and " + (shortens ? std::to_string(ranks.size() - shown) + " more" : std::to_string(ranks.back()));
}

}  // namespace strata
