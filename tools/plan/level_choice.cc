// SPDX-License-Identifier: MIT
#include "tools/plan/level_choice.h"

namespace strata::tools {

using kernels::Level;

void LevelTotals::add(std::string_view key, Level level, std::optional<double> microseconds) {
  auto& [sum, possible] = totals_[std::string(key)][level];
  possible = possible && microseconds;
  sum += microseconds.value_or(0);
}

LevelChoice LevelTotals::best() const {
  LevelChoice choice;
  choice.levels.each([&](const char* key, std::optional<Level>& best) {
    const auto levels = totals_.find(key);
    if (levels == totals_.end()) return;
    for (const auto& [level, total] : levels->second) {
      if (total.possible && (!best || total.sum < levels->second.at(*best).sum)) best = level;
    }
    if (best) {
      choice.microseconds += levels->second.at(*best).sum;
    } else {
      choice.impossible = key;
    }
  });
  return choice;
}

}  // namespace strata::tools
