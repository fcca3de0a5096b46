// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/picture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Returns what is wrong with a text of elements: tags that are not closed in order, attributes without quotes, and
// characters that XML reserves. Empty: nothing.
std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&' && text.compare(at, 5, "&amp;") != 0) return "a bare & at " + std::to_string(at);
    if (text[at] == '>') return "a bare > at " + std::to_string(at);
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "an open tag at the end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.empty() || count(tag, "\"") % 2 != 0 || count(tag, "=") != count(tag, "=\"") ||
        count(tag, "=\"") != count(tag, "\"") / 2)
      return "<" + tag + ">";
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return "<" + tag + "> closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

TEST(Picture, WellFormedAndSmall) {
  std::vector<int32_t> document_of(4096);
  for (size_t i = 0; i < document_of.size(); ++i) document_of[i] = static_cast<int32_t>(i / 700);
  for (const char* text :
       {"full", "causal & (window(256) | global(16))", "blocks(0.25, 3)", "causal & documents", "dilated(9, 100)",
        "dilated(1000, 2) & causal & blocks(0.5, 1) & prefix(4000) | window(99) | "
        "global(12) & (prefix(3000) | blocks(0.125, 99))"}) {
    for (const int64_t positions : {1, 2, 63, 65, 100, 4096}) {
      const std::string picture = pattern_picture(parse_pattern(text), positions, document_of);
      EXPECT_EQ(xml_fault(picture), "") << text;
      EXPECT_LT(picture.size(), 200000u);
      EXPECT_TRUE(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
  }
}

TEST(Picture, TheCheckOfXmlCanFail) {
  EXPECT_EQ(xml_fault("<a b=\"c\"><d/>&amp;</a>"), "");
  for (const char* wrong :
       {"<a>", "<a></b>", "</a>", "<a>&</a>", "<a b=c></a>", "<a b=\"c></a>", "<a", "a > b", "<>"}) {
    EXPECT_NE(xml_fault(wrong), "") << wrong;
  }
}

constexpr char kPart[] = "#a8c4e0", kAll[] = "#2f5d8a";  // each is in the legend once

TEST(Picture, RunsOfEqualCells) {
  // One run for each row of cells.
  const std::string full = pattern_picture({}, 4096);
  EXPECT_EQ(count(full, kAll), 64 + 1);
  EXPECT_EQ(count(full, kPart), 1);
  EXPECT_EQ(count(full, "width=\"512\" height=\"8\""), 64);
  EXPECT_NE(full.find(">100 % of the pairs of 4096 positions are visible<"), std::string::npos) << full;
  // The diagonal is seen in part, and 63 rows have cells before it.
  const std::string causal = pattern_picture(parse_pattern("causal"), 4096);
  EXPECT_EQ(count(causal, kAll), 63 + 1);
  EXPECT_EQ(count(causal, kPart), 64 + 1);
  EXPECT_NE(causal.find(">causal<"), std::string::npos);
  EXPECT_NE(causal.find(">50 % of the pairs"), std::string::npos);
  EXPECT_NE(pattern_picture(parse_pattern("causal&prefix(3)"), 8).find(">causal &amp; prefix(3)<"), std::string::npos);
}

// The last cells have fewer positions, and are whole nevertheless.
TEST(Picture, LengthsThatCellsDoNotDivide) {
  const std::string full = pattern_picture({}, 65);
  EXPECT_EQ(count(full, kAll), 33 + 1);
  EXPECT_EQ(count(full, kPart), 1);
  EXPECT_EQ(count(pattern_picture({}, 1), kAll), 1 + 1);
}

TEST(Picture, Refusals) {
  EXPECT_THROW(pattern_picture({}, 0), Error);
  EXPECT_THROW(pattern_picture(parse_pattern("documents"), 3), Error);
}

}  // namespace
}  // namespace strata::kernels
