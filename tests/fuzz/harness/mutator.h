// SPDX-License-Identifier: MIT
// Makes small damages that are hard for parsers, the same in every run: bits, cut and doubled ranges, numbers at the
// limits of types.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace strata::fuzz {

class Mutator {
 public:
  // Inserts these words besides numbers.
  explicit Mutator(const std::vector<std::string_view>& words) {
    words_.insert(words_.end(), words.begin(), words.end());
  }

  std::string damaged(std::string bytes) {
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(bytes);
    return bytes;
  }

  // Returns a number in [0, size).
  size_t below(size_t size) { return std::uniform_int_distribution<size_t>(0, size - 1)(random_); }

 private:
  void edit(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = below(bytes.size()), length = 1 + below(std::min<size_t>(40, bytes.size() - at));
    const size_t digit = bytes.find_first_of("0123456789", at);
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(below(bytes.size()), bytes, at, length);
        break;
      case 3:
        bytes.insert(at, words_[below(words_.size())]);
        break;
      case 4:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 5:
        bytes.resize(at);
        break;
      case 6:  // a binary number at a limit
        bytes.replace(at, std::min<size_t>(length, 8), std::min<size_t>(length, 8), below(2) == 0 ? '\xff' : '\0');
        break;
      default:
        if (digit == std::string::npos) return;
        bytes.replace(digit, std::min(bytes.find_first_not_of("0123456789", digit), bytes.size()) - digit,
                      words_[below(words_.size())]);
    }
  }

  std::mt19937_64 random_{1};
  std::vector<std::string_view> words_ = {"0",
                                          "-1",
                                          "1.5",
                                          "1e3",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "1e999",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "null",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "NaN"};
};

}  // namespace strata::fuzz
