// SPDX-License-Identifier: MIT
#include "trainer/report/metrics_line.h"

#include <charconv>

namespace strata::trainer {

std::optional<int64_t> step_of_line(std::string_view line) {
  if (!line.starts_with(kLineBegin) || !line.ends_with('}')) return std::nullopt;
  int64_t step = 0;
  const auto parsed = std::from_chars(line.data() + kLineBegin.size(), line.data() + line.size(), step);
  return parsed.ec == std::errc() ? std::optional(step) : std::nullopt;
}

}  // namespace strata::trainer
