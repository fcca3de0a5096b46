// SPDX-License-Identifier: MIT
#include "base/text/printable.h"

#include <algorithm>

#include "base/text/utf8.h"

namespace strata {
namespace {

constexpr size_t kLongestStart = 40, kWidestLine = 4 << 10, kLongestMessage = 64 << 10;

// Cuts between two characters, of which the longest has 4 bytes.
std::string cut_to(size_t most_bytes, std::string_view text) {
  if (text.size() <= most_bytes) return std::string(text);
  for (int i = 0; i < 3 && continues_character(text[most_bytes]); ++i) --most_bytes;
  return std::string(text.substr(0, most_bytes)) + "... (" + std::to_string(text.size() - most_bytes) + " bytes more)";
}

}  // namespace

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

std::string printable_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const std::string_view character = text.substr(0, bytes);
    const bool late_control = character.size() == 2 && character >= "\xc2\x80" && character <= "\xc2\x9f";
    if (bytes == 0 || late_control) {
      result += '?';
    } else {
      result += printable(std::string(character));
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

std::string printable_start(std::string_view text) { return printable_utf8(cut_to(kLongestStart, text)); }

std::string printable_lines(std::string_view message) {
  std::string result;
  const std::string shortened = cut_to(kLongestMessage, message);
  for (std::string_view rest = shortened;;) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string line = cut_to(kWidestLine, rest.substr(0, end));
    std::replace(line.begin(), line.end(), '\t', ' ');
    result += printable_utf8(line);
    if (end == rest.size()) return result;
    result += '\n';
    rest.remove_prefix(end + 1);
  }
}

}  // namespace strata
