// SPDX-License-Identifier: MIT
#include "base/printable.h"

#include <algorithm>

namespace strata {

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

}  // namespace strata
