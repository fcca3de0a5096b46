// SPDX-License-Identifier: MIT
// Chooses the level of each key of `kernels:` by the times of its uses.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"

namespace strata::tools {

// The fastest level of each op, and the time of all ops together.
struct LevelChoice {
  modules::OpLevels levels;  // absent for ops without uses
  double microseconds = 0;
  std::string impossible = {};  // a key of `kernels:` for which no level supports all uses
};

// Microseconds of all uses of the ops that each key of `kernels:` selects, by level. A level that does not support one
// of the uses is excluded.
class LevelTotals {
 public:
  // Adds the time of some uses. None: the level does not support them.
  void add(std::string_view key, kernels::Level level, std::optional<double> microseconds);

  LevelChoice best() const;

 private:
  struct Total {
    double sum = 0;
    bool possible = true;
  };
  std::map<std::string, std::map<kernels::Level, Total>> totals_;
};

}  // namespace strata::tools
