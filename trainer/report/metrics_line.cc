// SPDX-License-Identifier: MIT
#include "trainer/report/metrics_line.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace strata::trainer {
namespace {

std::optional<int64_t> integer_at(std::string_view text) {
  int64_t integer = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), integer);
  return parsed.ec == std::errc() ? std::optional(integer) : std::nullopt;
}

}  // namespace

std::optional<int64_t> step_of_line(std::string_view line) {
  if (!line.starts_with(kLineBegin) || !line.ends_with('}')) return std::nullopt;
  return integer_at(line.substr(kLineBegin.size()));
}

std::optional<int64_t> checkpoint_of_line(std::string_view line) {
  if (!step_of_line(line)) return std::nullopt;
  // Only the key right after the step counts: `phases` of a step has a key of this name too, with milliseconds.
  const std::string key = ",\"" + std::string(kCheckpointKey) + "\":";
  line.remove_prefix(std::min(line.find(','), line.size()));
  return line.starts_with(key) ? integer_at(line.substr(key.size())) : std::nullopt;
}

}  // namespace strata::trainer
