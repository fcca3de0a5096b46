// SPDX-License-Identifier: MIT
#include "base/printable.h"

#include <algorithm>

#include "base/utf8.h"

namespace strata {

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

std::string printable_utf8(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const std::string_view character = text.substr(0, bytes);
    const bool late_control = character.size() == 2 && character >= "\xc2\x80" && character <= "\xc2\x9f";
    if (bytes == 0 || late_control) {
      shown += '?';
    } else {
      shown += printable(std::string(character));
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace strata
