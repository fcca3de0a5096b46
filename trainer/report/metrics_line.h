// SPDX-License-Identifier: MIT
// The first member of each line in metrics.jsonl: {"step":12,...}.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::trainer {

inline constexpr std::string_view kLineBegin = "{\"step\":";

// Returns the step of a whole line, and nothing if the line is not one of a run.
std::optional<int64_t> step_of_line(std::string_view line);

}  // namespace strata::trainer
