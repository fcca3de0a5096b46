// SPDX-License-Identifier: MIT
// The documents of random text.
#include "tools/random_data.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <variant>
#include <vector>

namespace strata::tools {
namespace {

// Returns the ends of the documents of random text in samples of 16 tokens.
std::vector<int32_t> document_ends(int64_t document_tokens) {
  trainer::TextDataConfig text;
  text.documents = trainer::DocumentUse::separate;
  const RandomData data({modules::TransformerConfig{.sequence = 16, .vocabulary = 30}}, {text}, document_tokens);
  const auto& written = std::get<trainer::TextDataConfig>(data.config().type);
  EXPECT_EQ(written.documents, trainer::DocumentUse::separate);
  std::ifstream file(written.train + ".documents", std::ios::binary);
  std::vector<int32_t> header(256);
  file.read(reinterpret_cast<char*>(header.data()), 1024);
  std::vector<int32_t> ends(static_cast<size_t>(header[2]));
  file.read(reinterpret_cast<char*>(ends.data()), static_cast<std::streamsize>(ends.size() * sizeof(int32_t)));
  EXPECT_TRUE(file.good());
  return ends;
}

TEST(RandomData, DocumentsHaveTheirAverage) {
  constexpr int32_t kTokens = 256 * 16 + 1;
  for (const int64_t average : {5, 40}) {
    const std::vector<int32_t> ends = document_ends(average);
    EXPECT_EQ(ends.back(), kTokens);
    EXPECT_NEAR(kTokens / static_cast<double>(ends.size()), average, 0.1 * average);
  }
  EXPECT_EQ(document_ends(0), document_ends(8));
}

TEST(RandomData, DocumentsAreThoseOfThePeer) {
  const std::vector<int32_t> ends = document_ends(5);
  // tests/tools/peers_test.py has the same numbers.
  EXPECT_EQ(std::vector<int32_t>(ends.begin(), ends.begin() + 11),
            (std::vector<int32_t>{6, 10, 14, 18, 19, 28, 34, 42, 46, 51, 55}));
}

}  // namespace
}  // namespace strata::tools
