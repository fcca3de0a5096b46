// SPDX-License-Identifier: MIT
// What all pictures in SVG need.
#pragma once

#include <string>

namespace strata {

// Value of xmlns: a name, not an address.
inline constexpr const char* kSvgNamespace =
    "http:"
    "//www.w3.org/2000/svg";

// Returns the text of an element.
inline std::string svg_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace strata
