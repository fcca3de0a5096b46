// SPDX-License-Identifier: MIT
#include "trainer/data/text/document_ends.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/errors.h"
#include "base/permutation.h"
#include "tests/trainer/data/token_files.h"

namespace strata::trainer {
namespace {

// Returns ends of documents of 1 to `longest` tokens.
std::vector<int32_t> random_ends(int64_t documents, uint64_t longest) {
  std::vector<int32_t> ends;
  int32_t end = 0;
  for (int64_t i = 0; i < documents; ++i) ends.push_back(end += 1 + static_cast<int32_t>(mix(7, i) % longest));
  return ends;
}

TokenFile tokens_for(const std::string& name, const std::vector<int32_t>& ends) {
  write_document_ends(name, ends);
  return TokenFile(write_tokens(name, counting(ends.back(), 50)));
}

TEST(DocumentEnds, AreFoundBetweenAnyTwoPlaces) {
  for (const int64_t documents : {1, 2, 1023, 1024, 1025, 5000}) {
    const std::vector<int32_t> ends = random_ends(documents, 9);
    const DocumentEnds read(tokens_for("good.bin", ends), /*window=*/1);
    EXPECT_EQ(read.documents(), documents);
    for (uint64_t i = 0; i < 300; ++i) {
      const auto first = static_cast<int64_t>(mix(1, i) % (ends.back() + 2));
      const auto last = first + static_cast<int64_t>(mix(2, i) % 200) - 1;
      std::vector<int64_t> expected;
      for (const int32_t end : ends) {
        if (end >= first && end <= last) expected.push_back(end);
      }
      EXPECT_EQ(read.between(first, last), expected) << first << " to " << last << " of " << documents;
    }
  }
}

TEST(DocumentEnds, CountsThoseInAWindow) {
  const std::vector<int32_t> ends = {5, 6, 7, 20, 22, 24, 26, 40};
  const TokenFile tokens = tokens_for("window.bin", ends);
  for (const int64_t window : {1, 2, 3, 4, 5, 6, 7, 8, 20, 100}) {
    int64_t most = 0;
    for (int64_t first = 0; first < 40; ++first) {
      most = std::max<int64_t>(
          most, std::ranges::count_if(ends, [&](int32_t end) { return end > first && end <= first + window; }));
    }
    EXPECT_EQ(DocumentEnds(tokens, window).most_in_window(), most) << window;
  }
  EXPECT_EQ(DocumentEnds(tokens, /*window=*/0).most_in_window(), 1) << "a bound, although there is no place";
}

TEST(DocumentEnds, HashIsThatOfAllEnds) {
  std::vector<int32_t> ends = random_ends(3000, 9);
  const uint64_t before = DocumentEnds(tokens_for("hash.bin", ends), 1).hash();
  EXPECT_EQ(before, DocumentEnds(tokens_for("hash.bin", ends), 1).hash());
  ends.erase(ends.begin() + 1500);
  EXPECT_NE(before, DocumentEnds(tokens_for("hash.bin", ends), 1).hash());
}

// Wrong ends of 40 tokens, and words of the message.
struct Wrong {
  std::string name;
  std::vector<int32_t> ends, header;
  std::string words;
};

class WrongDocumentEnds : public testing::TestWithParam<Wrong> {};

TEST_P(WrongDocumentEnds, AreRefusedByName) {
  const TokenFile tokens(write_tokens("wrong.bin", counting(40, 50)));
  const std::string path = write_document_ends("wrong.bin", GetParam().ends, GetParam().header);
  try {
    const DocumentEnds ends(tokens, /*window=*/8);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find(path + ": " + GetParam().words), std::string::npos) << error.what();
  }
}

constexpr int32_t kMagic = 20261125;
const std::vector<Wrong> kWrong = {
    {"magic", {40}, {20240520, 1, 1, 40}, "begins with 20240520, 1; expected 20261125, 1"},
    {"version", {40}, {kMagic, 2, 1, 40}, "begins with 20261125, 2; expected 20261125, 1"},
    {"other_tokens", {41}, {kMagic, 1, 1, 41}, "speaks of 41 tokens, but " + testing::TempDir() + "/wrong.bin has 40"},
    {"none", {}, {kMagic, 1, 0, 40}, "has 0 documents by its header"},
    {"negative", {40}, {kMagic, 1, -1, 40}, "has -1 documents by its header"},
    {"too_few",
     {10, 40},
     {kMagic, 1, 3, 40},
     "has 1032 bytes; its header (3 documents of 4 bytes) asks for 1036: it was"},
    {"too_many",
     {10, 40},
     {kMagic, 1, 1, 40},
     "has 1032 bytes; its header (1 documents of 4 bytes) asks for 1028: it has"},
    {"twice", {10, 10, 40}, {}, "document 1 of 3 ends at token 10; expected more than 10"},
    {"descending", {10, 9, 40}, {}, "document 1 of 3 ends at token 9; expected more than 10"},
    {"empty", {0, 40}, {}, "document 0 of 2 ends at token 0; expected more than 0"},
    {"below_zero", {-5, 40}, {}, "document 0 of 2 ends at token -5"},
    {"behind_the_tokens",
     {10, 50, 60},
     {kMagic, 1, 3, 40},
     "document 1 of 3 ends at token 50; expected more than 10, the end of the document before, and at most 40"},
    {"before_the_end", {10, 39}, {kMagic, 1, 2, 40}, "the last of 2 documents ends at token 39; expected 40"},
};
INSTANTIATE_TEST_SUITE_P(Kinds, WrongDocumentEnds, testing::ValuesIn(kWrong),
                         [](const auto& info) { return info.param.name; });

TEST(DocumentEnds, NamesAFileThatChangesWhileInUse) {
  std::vector<int32_t> ends = random_ends(3000, 9);
  const TokenFile tokens = tokens_for("changes.bin", ends);
  const DocumentEnds read(tokens, /*window=*/8);
  const auto refusal = [&] {
    try {
      read.between(ends[2500], ends[2600]);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "");
  const std::vector<int32_t> good = ends;
  ends[2550] = ends[2500];
  write_document_ends("changes.bin", ends);
  EXPECT_NE(refusal().find("changes.bin.documents: was changed while in use"), std::string::npos) << refusal();
  write_document_ends("changes.bin", good);
  ASSERT_EQ(truncate(read.path().c_str(), 1024 + 4 * 2540), 0);
  EXPECT_NE(refusal().find("changes.bin.documents: was cut while in use: it had 3000 documents"), std::string::npos);
}

}  // namespace
}  // namespace strata::trainer
