// SPDX-License-Identifier: MIT
#include "trainer/profile/match_kernels.h"

#include <algorithm>

namespace strata::trainer::profile {
namespace {

// Most entries of the table of common lengths: 64 MiB, which takes some tens of milliseconds.
constexpr size_t kMostEntries = size_t{1} << 24;

}  // namespace

std::vector<int64_t> match_kernels(const std::vector<std::string>& eager, const std::vector<std::string>& replayed) {
  std::vector<int64_t> matched(replayed.size(), -1);
  size_t begin = 0, eager_end = eager.size(), end = replayed.size();
  for (; begin < std::min(eager_end, end) && eager[begin] == replayed[begin]; ++begin) {
    matched[begin] = static_cast<int64_t>(begin);
  }
  while (begin < std::min(eager_end, end) && eager[eager_end - 1] == replayed[end - 1]) {
    matched[--end] = static_cast<int64_t>(--eager_end);
  }
  // The longest common subsequence of the rest in the middle.
  const size_t rows = eager_end - begin, columns = end - begin;
  if (rows == 0 || columns == 0 || (rows + 1) * (columns + 1) > kMostEntries) return matched;
  std::vector<uint32_t> lengths((rows + 1) * (columns + 1));
  const auto length = [&](size_t row, size_t column) -> uint32_t& { return lengths[row * (columns + 1) + column]; };
  for (size_t row = rows; row-- > 0;) {
    for (size_t column = columns; column-- > 0;) {
      length(row, column) = eager[begin + row] == replayed[begin + column]
                                ? length(row + 1, column + 1) + 1
                                : std::max(length(row + 1, column), length(row, column + 1));
    }
  }
  for (size_t row = 0, column = 0; row < rows && column < columns;) {
    if (eager[begin + row] == replayed[begin + column]) {
      matched[begin + column++] = static_cast<int64_t>(begin + row++);
    } else if (length(row + 1, column) >= length(row, column + 1)) {
      ++row;
    } else {
      ++column;
    }
  }
  return matched;
}

std::string difference(const std::vector<std::string>& eager, const std::vector<std::string>& replayed,
                       const std::vector<int64_t>& matched) {
  const auto strangers = std::count(matched.begin(), matched.end(), -1);
  if (strangers == 0 && eager.size() == replayed.size()) return "";
  size_t first = 0;
  while (first < std::min(eager.size(), replayed.size()) && eager[first] == replayed[first]) ++first;
  const auto name = [&](const std::vector<std::string>& names) { return first < names.size() ? names[first] : "none"; };
  return "the replay has " + std::to_string(replayed.size()) + " kernels and the eager step " +
         std::to_string(eager.size()) + "; " + std::to_string(strangers) +
         " of the replay have no match; the first difference is at " + std::to_string(first) + ": " + name(replayed) +
         " instead of " + name(eager);
}

}  // namespace strata::trainer::profile
