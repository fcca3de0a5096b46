// SPDX-License-Identifier: MIT
#include "configs/source.h"

#include <string_view>

#include "base/text/printable.h"

namespace strata::configs {
namespace {

constexpr size_t kWidest = 120;  // characters of an excerpt

std::string_view line_of(std::string_view text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return {};
    ++begin;
  }
  std::string_view rest = text.substr(begin);
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

}  // namespace

std::string Place::text() const {
  if (!source) return "default";
  constexpr size_t kShown = 200;  // bytes of an override
  const std::string& name = source->name;
  if (source->is_override) return "override '" + (name.size() > kShown ? name.substr(0, kShown) + "..." : name) + "'";
  return source->name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string Place::origin() const {
  if (!source) return "default";
  if (source->is_override) return "override";
  const std::string name = printable_utf8(source->name);  // it is written into comments of YAML
  return line > 0 ? name + ":" + std::to_string(line) : name;
}

std::string Place::excerpt() const {
  if (!source || source->is_override || line == 0) return "";
  const std::string_view line_text = line_of(source->text, line);
  if (line_text.empty() || column > static_cast<int>(kWidest)) return "";
  const std::string shown = printable(std::string(line_text.substr(0, kWidest)));  // no control characters
  return "    " + shown + "\n    " + std::string(column - 1, ' ') + "^\n";
}

}  // namespace strata::configs
