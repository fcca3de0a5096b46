// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/parse_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

using Kind = Pattern::Kind;

std::string refusal(const std::string& text) {
  try {
    const Pattern pattern = parse_pattern(text);
    return "accepted as " + to_text(pattern);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
}

TEST(ParsePattern, EachWord) {
  EXPECT_EQ(parse_pattern("full"), Pattern{});
  EXPECT_EQ(parse_pattern("causal"), (Pattern{.kind = Kind::causal}));
  EXPECT_EQ(parse_pattern("window(3)"), (Pattern{.kind = Kind::window, .n = 3}));
  EXPECT_EQ(parse_pattern("dilated(3, 4)"), (Pattern{.kind = Kind::dilated, .n = 3, .step = 4}));
  EXPECT_EQ(parse_pattern("prefix(2147483647)"), (Pattern{.kind = Kind::prefix, .n = 2147483647}));
  EXPECT_EQ(parse_pattern("global(1)"), (Pattern{.kind = Kind::global, .n = 1}));
  EXPECT_EQ(parse_pattern("blocks(0.25, 4294967295)"),
            (Pattern{.kind = Kind::blocks, .density = 0.25, .seed = 4294967295}));
  EXPECT_EQ(parse_pattern("documents"), (Pattern{.kind = Kind::documents}));
}

TEST(ParsePattern, OperatorsAndBlanks) {
  const Pattern a = {.kind = Kind::causal}, b = {.kind = Kind::documents}, c = {.kind = Kind::window, .n = 5};
  EXPECT_EQ(parse_pattern("causal & documents | window(5)"), (a & b) | c);
  EXPECT_EQ(parse_pattern("causal | documents & window(5)"), a | (b & c));
  EXPECT_EQ(parse_pattern(" (causal|documents)\t&window ( 5 )\n"), (a | b) & c);
  EXPECT_EQ(parse_pattern("causal & (documents & window(5))"), (a & b) & c);
  EXPECT_EQ(parse_pattern("((causal) | ((documents | window(5))))"), (a | b) | c);
  EXPECT_NE(parse_pattern("causal & documents"), parse_pattern("documents & causal"));
}

TEST(ParsePattern, CanonicalTexts) {
  for (const auto& [text, canonical] :
       {std::pair<std::string, std::string>{"causal&(window(256)|global(16))", "causal & (window(256) | global(16))"},
        {"(causal & window(007)) | prefix(9)", "causal & window(7) | prefix(9)"},
        {"blocks(.250,7)", "blocks(0.25, 7)"},
        {"blocks(1e0, 0)", "blocks(1, 0)"},
        {"blocks(1e-7, 0)", "blocks(1e-07, 0)"},
        {"dilated(2,3)", "dilated(2, 3)"},
        {"(((full)))", "full"}}) {
    EXPECT_EQ(to_text(parse_pattern(text)), canonical);
    EXPECT_EQ(to_text(parse_pattern(canonical)), canonical);
  }
}

TEST(ParsePattern, RandomTextsAreReadAgain) {
  Draws draws(2);
  for (int i = 0; i < 2000; ++i) {
    Pattern pattern = random_pattern(draws, 1 + draws.below(kMostWords), 1000);
    if (pattern.kind == Kind::blocks) pattern.density = draws.uniform();
    EXPECT_EQ(parse_pattern(to_text(pattern)), pattern) << to_text(pattern);
  }
}

constexpr char kEveryWord[] =
    "full, causal, window(n), dilated(n, step), prefix(n), global(n), blocks(density, seed), documents, or '('";
constexpr char kCount[] = ", a whole number from 1 to 2147483647";

TEST(ParsePattern, WrongTexts) {
  const std::string word = std::string(", expected ") + kEveryWord, count = kCount;
  const std::string more = ", expected '&', '|' or the end of the text", end = "found the end of the text";
  const std::string many = [] {
    std::string text = "full";
    for (int i = 1; i < 17; ++i) text += "|full";
    return text;
  }();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1: " + end + word},
      {"  \t", "4: " + end + word},
      {"()", "2: found ')'" + word},
      {"causl", "1: found 'causl'" + word + "; did you mean 'causal'?"},
      {"causal & windw(3)", "10: found 'windw'" + word + "; did you mean 'window'?"},
      {"Causal", "1: found 'Causal'" + word + "; did you mean 'causal'?"},
      {"document", "1: found 'document'" + word + "; did you mean 'documents'?"},
      {"sliding_window(3)", "1: found 'sliding_window'" + word},
      {"64", "1: found '64'" + word},
      {"causal &", "9: " + end + word},
      {"& causal", "1: found '&'" + word},
      {"causal && full", "9: found '&'" + word},
      {"causal || full", "9: found '|'" + word},
      {"causal | & full", "10: found '&'" + word},
      {"causal full", "8: found 'full'" + more},
      {"causal and full", "8: found 'and'" + more},
      {"causal, full", "7: found ','" + more},
      {"causal)", "7: found ')'" + more},
      {"window(3) 4", "11: found '4'" + more},
      {"(causal", "8: " + end + ", expected '&', '|' or the ')' of the '(' in column 1"},
      {"full | ((causal & full)", "24: " + end + ", expected '&', '|' or the ')' of the '(' in column 8"},
      {"(causal full)", "9: found 'full', expected '&', '|' or the ')' of the '(' in column 1"},
      {"causal()", "7: found '(', expected no '(' after causal, which takes no numbers"},
      {"documents(3)", "10: found '(', expected no '(' after documents, which takes no numbers"},
      {"window", "7: " + end + ", expected '(' of window(n)"},
      {"window 3", "8: found '3', expected '(' of window(n)"},
      {"window & causal", "8: found '&', expected '(' of window(n)"},
      {"window(", "8: " + end + ", expected n of window(n)" + count},
      {"window()", "8: found ')', expected n of window(n)" + count},
      {"window(0)", "8: found '0', expected n of window(n)" + count},
      {"window(-3)", "8: found '-3', expected n of window(n)" + count},
      {"window(2.5)", "8: found '2.5', expected n of window(n)" + count},
      {"window(1e3)", "8: found '1e3', expected n of window(n)" + count},
      {"window(0x10)", "8: found '0x10', expected n of window(n)" + count},
      {"window(4k)", "8: found '4k', expected n of window(n)" + count},
      {"window(n)", "8: found 'n', expected n of window(n)" + count},
      {"window(2147483648)", "8: found '2147483648', expected n of window(n)" + count},
      {"window(" + std::string(40, '9') + ")",
       "8: found '" + std::string(32, '9') + "...', expected n of window(n)" + count},
      {"window(1,000)", "9: found ',', expected ')' of window(n)"},
      {"window(3", "9: " + end + ", expected ')' of window(n)"},
      {"dilated(3)", "10: found ')', expected ',' of dilated(n, step)"},
      {"dilated(3, 0)", "12: found '0', expected step of dilated(n, step)" + count},
      {"dilated(0, 3)", "9: found '0', expected n of dilated(n, step)" + count},
      {"dilated(1, 2, 3)", "13: found ',', expected ')' of dilated(n, step)"},
      {"prefix(0)", "8: found '0', expected n of prefix(n)" + count},
      {"global(0)", "8: found '0', expected n of global(n)" + count},
      {"blocks(1.5, 1)", "8: found '1.5', expected density of blocks(density, seed), a number from 0 to 1"},
      {"blocks(-0, 1)", "8: found '-0', expected density of blocks(density, seed), a number from 0 to 1"},
      {"blocks(nan, 1)", "8: found 'nan', expected density of blocks(density, seed), a number from 0 to 1"},
      {"blocks(1e999, 1)", "8: found '1e999', expected density of blocks(density, seed), a number from 0 to 1"},
      {"blocks(25%, 1)", "8: found '25', expected density of blocks(density, seed), a number from 0 to 1"},
      {"window(5%)", "9: found '%', which no pattern has"},
      {"blocks(0.5)", "11: found ')', expected ',' of blocks(density, seed)"},
      {"blocks(0.5, 4294967296)",
       "13: found '4294967296', expected seed of blocks(density, seed), a whole number from 0 to 4294967295"},
      {"blocks(0.5, -1)",
       "13: found '-1', expected seed of blocks(density, seed), a whole number from 0 to 4294967295"},
      {"causal & !full", "10: found '!', which no pattern has"},
      {"full & \xc3\xa9", "8: found '\xc3\xa9', which no pattern has"},
      {"full \xff", "6: found the byte 0xff, which no pattern has"},
      {std::string("full\0", 5), "5: found the byte 0x00, which no pattern has"},
      {"full\x1b[31m", "5: found the byte 0x1b, which no pattern has"},
      {"full\xc2\x85", "5: found the byte 0xc2, which no pattern has"},
      {std::string(33, '(') + "full", "33: found '(', expected at most 32 parentheses inside of each other"},
      {many, "81: found 'full', expected at most 16 words"},
      {std::string(1001, ' '), "1001: found 1001 bytes, expected at most 1000"},
      {std::string(100, 'x'), "1: found '" + std::string(32, 'x') + "...'" + word},
  };
  EXPECT_GE(cases.size(), 40u);
  for (const auto& [text, message] : cases) EXPECT_EQ(refusal(text), "attention pattern, column " + message) << text;
}

TEST(ParsePattern, TheMostThatIsAllowed) {
  std::string words = "full";
  for (int i = 1; i < 16; ++i) words += " & full";
  EXPECT_EQ(count_words(parse_pattern(words)), 16);
  EXPECT_EQ(parse_pattern(std::string(32, '(') + "full" + std::string(32, ')')), Pattern{});
  EXPECT_EQ(parse_pattern("full" + std::string(996, ' ')), Pattern{});
  // Parentheses that are closed do not count: here are 48.
  std::string groups = "(((full)))";
  for (int i = 1; i < 16; ++i) groups += " | (((full)))";
  EXPECT_EQ(count_words(parse_pattern(groups)), 16);
}

}  // namespace
}  // namespace strata::kernels
