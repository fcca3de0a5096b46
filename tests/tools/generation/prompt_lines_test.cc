// SPDX-License-Identifier: MIT
#include "tools/generation/prompt_lines.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/errors.h"
#include "base/files/temporary_folder.h"

namespace strata::generation {
namespace {

std::vector<PromptLine> read(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/prompts";
  std::ofstream(path) << text;
  return read_prompt_lines(path);
}

TEST(PromptLines, ReadsTextAndIds) {
  const auto prompts = read("{\"text\": \"a\\n\\u00e4\"}\r\n\n {\"ids\": [5, 9223372036854775807]}\n{\"ids\": []}");
  ASSERT_EQ(prompts.size(), 3U);
  EXPECT_TRUE(prompts[0].is_text);
  EXPECT_EQ(prompts[0].ids, (std::vector<int64_t>{'a', '\n', 0xc3, 0xa4}));
  EXPECT_FALSE(prompts[1].is_text);
  EXPECT_EQ(prompts[1].ids, (std::vector<int64_t>{5, 9223372036854775807}));
  EXPECT_TRUE(prompts[2].ids.empty());
}

TEST(PromptLines, WritesLinesThatAreReadAgain) {
  EXPECT_EQ(to_line({{5, 6}}), R"({"ids":[5,6]})");
  EXPECT_EQ(to_line({{'a', '\n', 0xc3, 0xa4, 0x9b, 0x1b}, true}), R"({"text":"a\n\u00e4\ufffd\u001b"})");
}

void expect_refusal(const std::string& line, const std::string& expected) {
  try {
    read("{\"ids\": [5]}\n" + line);
    ADD_FAILURE() << line;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find("prompts:2: " + expected), std::string::npos) << error.what();
  }
}

TEST(PromptLines, RefusesOtherLines) {
  const std::string expected = R"(expected a JSON object such as {"text": "Once"})";
  for (const char* line : {"5", "[5]", "{", R"({"text": 5})", R"({"ids": "5"})", "{}", R"({"text": "a", "ids": [5]})",
                           R"({"words": "a"})", R"([["ids", [5]]])"}) {
    expect_refusal(line, expected);
  }
  expect_refusal(R"({"ids": [1], "ids": [2]})", "has 'ids' twice; " + expected);
  expect_refusal(R"({"text": "a", "ids": [1], "text": "b"})", "has 'text' twice; " + expected);
  EXPECT_THROW(read("\n \n"), Error);
}

TEST(PromptLines, RefusesWhatIsNoId) {
  const std::string expected = ", expected an integer from 0 on";
  for (const char* id : {"-1", "1.5", "18446744073709551615", "9223372036854775808", "1e+20", "true", R"("5")"}) {
    expect_refusal(std::string(R"({"ids": [3, )") + id + "]}", "an id is " + std::string(id) + expected);
  }
  expect_refusal(R"({"ids": [[5]]})", "an id is array" + expected);
  expect_refusal(R"({"ids": [100000000000000000000]})", "an id is 1e+20" + expected);
}

}  // namespace
}  // namespace strata::generation
