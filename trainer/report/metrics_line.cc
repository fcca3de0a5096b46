// SPDX-License-Identifier: MIT
#include "trainer/report/metrics_line.h"

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
  const std::string key = ",\"" + std::string(kCheckpointKey) + "\":";  // quotes within strings have escapes
  const size_t place = line.find(key);
  return place == line.npos ? std::nullopt : integer_at(line.substr(place + key.size()));
}

}  // namespace strata::trainer
