// SPDX-License-Identifier: MIT
// Reads the values of lines in metrics.jsonl again: {"step":12,...}.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::trainer {

inline constexpr std::string_view kLineBegin = "{\"step\":";
inline constexpr std::string_view kFirstLineBegin = "{\"step\":0,";  // begin of what a run writes before its first step
inline constexpr std::string_view kCheckpointKey = "checkpoint";

// Returns the step of a whole line, and nothing if the line is not one of a run.
std::optional<int64_t> step_of_line(std::string_view line);
// Returns the step of the checkpoint that a whole line says is finished: {"step":12,"checkpoint":10}.
std::optional<int64_t> checkpoint_of_line(std::string_view line);

}  // namespace strata::trainer
