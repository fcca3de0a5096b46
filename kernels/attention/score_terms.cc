// SPDX-License-Identifier: MIT
#include "kernels/attention/score_terms.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

namespace strata::kernels {

std::string to_text(const ScoreTerms& terms) {
  std::string text = terms.alibi ? "alibi" : "";
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : ", ") + term; };
  if (terms.softcap != 0) {
    char number[32];
    const auto end = std::to_chars(std::begin(number), std::end(number), terms.softcap).ptr;
    add("softcap " + std::string(number, end));
  }
  if (terms.sinks) add("sinks");
  return text;
}

std::vector<double> alibi_slopes(int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t eighths = head < power ? 2 * (head + 1) : 2 * (head - power) + 1;  // exponent in units of 4 / power
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(eighths) / static_cast<double>(power)));
  }
  return slopes;
}

}  // namespace strata::kernels
