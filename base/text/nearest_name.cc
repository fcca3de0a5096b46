// SPDX-License-Identifier: MIT
#include "base/text/nearest_name.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace strata {
namespace {

constexpr size_t kLongest = 64;  // no known name is longer; hostile keys of megabytes are not compared

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (size_t begin = 0, end = 0; begin < name.size(); begin = end + 1) {
    end = std::min(name.find('_', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
  }
  return words;
}

// The words of `name` without fillers such as num_ and _size. If all words are fillers, the last one is kept.
std::vector<std::string_view> telling_words(std::string_view name) {
  static constexpr std::array<std::string_view, 11> kFillers = {"n",   "num",    "max",  "total", "size", "dim",
                                                                "len", "length", "rate", "count", "steps"};
  const std::vector<std::string_view> words = words_of(name);
  std::vector<std::string_view> telling;
  for (const std::string_view word : words) {
    if (std::find(kFillers.begin(), kFillers.end(), word) == kFillers.end()) telling.push_back(word);
  }
  if (telling.empty() && !words.empty()) telling.push_back(words.back());
  return telling;
}

std::string initials(std::string_view name) {
  std::string letters;
  for (const std::string_view word : words_of(name)) letters += word.substr(0, 1);
  return letters;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b, int most) {
  const int rows = static_cast<int>(a.size()), columns = static_cast<int>(b.size());
  if (std::abs(rows - columns) > most) return most + 1;
  most = std::min(most, std::max(rows, columns));
  // A cell that is farther from the diagonal than `most` has a larger distance, so each row has only the cells between.
  // The two rows before are enough for the next one.
  const int far = most + 1;
  std::vector<int> cells(3 * static_cast<size_t>(columns + 1));
  int *row = cells.data(), *above = row + columns + 1, *second_above = above + columns + 1;
  for (int j = 0; j <= columns; ++j) row[j] = j;
  int nearest_above = 0;
  for (int i = 1; i <= rows; ++i) {
    int* const unused = second_above;
    second_above = above, above = row, row = unused;
    const int first = std::max(1, i - most), last = std::min(columns, i + most);
    row[first - 1] = first == 1 ? i : far;
    int nearest = row[first - 1];
    const char x = lower(a[static_cast<size_t>(i) - 1]);
    for (int j = first; j <= last; ++j) {
      const char y = lower(b[static_cast<size_t>(j) - 1]);
      int distance = above[j - 1] + (x == y ? 0 : 1);
      if (above[j] < distance) distance = above[j] + 1;
      if (row[j - 1] < distance) distance = row[j - 1] + 1;
      if (i > 1 && j > 1 && x == lower(b[static_cast<size_t>(j) - 2]) && lower(a[static_cast<size_t>(i) - 2]) == y &&
          second_above[j - 2] < distance) {
        distance = second_above[j - 2] + 1;
      }
      row[j] = distance;
      if (distance < nearest) nearest = distance;
    }
    if (last < columns) row[last + 1] = far;
    if (nearest > most && nearest_above > most) return far;
    nearest_above = nearest;
  }
  return std::min(row[columns], far);
}

int allowed_edits(std::string_view word) { return std::max(1, static_cast<int>(word.size() + 1) / 3); }

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  if (word.size() > kLongest) return "";
  int best = allowed_edits(word) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const int distance = edit_distance(word, name, best - 1);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

bool is_called(std::string_view word, std::string_view name) {
  constexpr size_t kShortest = 3;  // letters that an abbreviation must have
  if (word.size() > kLongest) return false;
  if (word.size() > 1 && word == initials(name)) return true;
  const std::vector<std::string_view> ours = telling_words(name), theirs = telling_words(word);
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                    [](std::string_view full, std::string_view part) {
                      return full == part || (part.size() >= kShortest && full.starts_with(part));
                    });
}

std::string did_you_mean(std::string_view name) {
  return name.empty() ? "" : "; did you mean '" + std::string(name) + "'?";
}

}  // namespace strata
