// SPDX-License-Identifier: MIT
// Captures what a console writes.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace strata::trainer {

class Captured {
 public:
  Captured() : out_(std::tmpfile()) {}
  ~Captured() { std::fclose(out_); }
  std::FILE* file() const { return out_; }
  std::string text() const {
    std::fflush(out_);
    std::string text(std::ftell(out_), ' ');
    std::rewind(out_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out_), text.size());
    return text;
  }

 private:
  std::FILE* out_;
};

}  // namespace strata::trainer
