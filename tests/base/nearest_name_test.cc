// SPDX-License-Identifier: MIT
#include "base/text/nearest_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {
namespace {

TEST(NearestName, CountsInsertedDeletedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", "", 9), 0);
  EXPECT_EQ(edit_distance("abc", "", 9), 3);
  EXPECT_EQ(edit_distance("steps", "stpes", 9), 1);
  EXPECT_EQ(edit_distance("steps", "step", 9), 1);
  EXPECT_EQ(edit_distance("steps", "stteps", 9), 1);
  EXPECT_EQ(edit_distance("steps", "STEPS", 9), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3);
}

// The definition, which needs exponential time.
int defined_distance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return static_cast<int>(a.size() + b.size());
  const std::string_view c = a.substr(1), d = b.substr(1);
  int least =
      std::min({defined_distance(c, b) + 1, defined_distance(a, d) + 1, defined_distance(c, d) + (a[0] != b[0])});
  if (!c.empty() && !d.empty() && a[0] == d[0] && c[0] == b[0]) {
    least = std::min(least, defined_distance(c.substr(1), d.substr(1)) + 1);
  }
  return least;
}

TEST(NearestName, TheBoundIsAllThatIsKnownOfALargerDistance) {
  std::mt19937 random(1);
  const auto word = [&] {
    std::string letters(random() % 7, 'a');
    for (char& letter : letters) letter = static_cast<char>('a' + random() % 3);
    return letters;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word(), b = word();
    const int distance = defined_distance(a, b);
    for (int most = 0; most < 9; ++most) {
      EXPECT_EQ(edit_distance(a, b, most), std::min(distance, most + 1)) << a << " " << b << " " << most;
    }
  }
}

TEST(NearestName, TheFirstOfEqualsAndNothingFar) {
  const std::vector<std::string> names = {"train", "brain", "validation"};
  EXPECT_EQ(nearest_name("rain", names), "train");
  EXPECT_EQ(nearest_name("valdiaton", names), "validation");
  EXPECT_EQ(nearest_name("seed", names), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), names), "");
}

TEST(NearestName, WhatOthersCallAKey) {
  for (const auto& [word, name] : {std::pair{"lr", "learning_rate"},
                                   {"wd", "weight_decay"},
                                   {"batch_size", "batch"},
                                   {"num_layers", "layers"},
                                   {"n_head", "heads"},
                                   {"seq_len", "sequence"},
                                   {"vocab_size", "vocabulary"},
                                   {"max_steps", "steps"},
                                   {"warmup_steps", "warmup"},
                                   {"grad_checkpointing", "gradient_checkpointing"}}) {
    EXPECT_TRUE(is_called(word, name)) << word;
  }
  for (const auto& [word, name] : {std::pair{"n_kv_heads", "heads"},
                                   {"batch_size", "micro_batch"},
                                   {"training", "train"},
                                   {"hidden_size", "width"},
                                   {"l", "learning_rate"},
                                   {"s", "sequence"},
                                   {"", "batch"},
                                   {"_", "batch"}}) {
    EXPECT_FALSE(is_called(word, name)) << word;
  }
}

}  // namespace
}  // namespace strata
