// SPDX-License-Identifier: MIT
// Draws the picture of a benchmark as SVG text, so that a report needs no other program.
#pragma once

#include <string>
#include <vector>

namespace strata::tools {

// The bar of a level. Consecutive bars with the same heading stand below it.
struct Bar {
  std::string heading, level;
  std::string label;  // what stands after the name of the level
  double share = 0;   // the length; that of 1 is drawn as a line
};

// Returns horizontal bars below a title and a sentence that says what their lengths are.
std::string svg(const std::string& title, const std::string& sentence, const std::vector<Bar>& bars);

}  // namespace strata::tools
