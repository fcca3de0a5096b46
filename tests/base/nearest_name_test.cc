// SPDX-License-Identifier: MIT
#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace strata {
namespace {

TEST(NearestName, CountsInsertedDeletedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1);
  EXPECT_EQ(edit_distance("steps", "step"), 1);
  EXPECT_EQ(edit_distance("steps", "stteps"), 1);
  EXPECT_EQ(edit_distance("steps", "STEPS"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
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
