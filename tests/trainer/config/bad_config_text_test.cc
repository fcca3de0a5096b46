// SPDX-License-Identifier: MIT
// Checks texts that are no configuration: forbidden by YAML, allowed by YAML but not by Strata, hostile, or random.
#include <gtest/gtest.h>

#include <random>

#include "configs/config_errors.h"
#include "tests/trainer/config/config_texts.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {
namespace {

struct BadText {
  std::string name, text, message;
};

class BadTextTest : public testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, IsReported) {
  const double start = processor_milliseconds();
  const std::string report = report_of(GetParam().text);
  const double duration = processor_milliseconds() - start;
  EXPECT_EQ(first_line(report), GetParam().message);
  EXPECT_LT(duration, 200);
}

std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) text += before + ", ";
    text += before + "]\n";
  }
  return text;
}

const BadText kBadTexts[] = {
    {"empty", "", "run.yaml:1:1: expected keys and values, got an empty file"},
    {"only_comments", "# nothing\n", "run.yaml:1:1: expected keys and values, got an empty file"},
    {"list", "[1, 2]\n", "run.yaml:1:1: expected a section (keys and values), got a list of 2"},
    {"scalar", "hello\n", "run.yaml:1:1: expected a section (keys and values), got 'hello'"},
    {"two_documents", config_with(14, "---") + "steps: 3\n",
     "run.yaml:14:1: expected one document, got a second one after '---'"},
    {"tab_as_indentation", config_with(14, "profile:") + "\tsteps: none\n",
     "run.yaml:15:1: expected spaces as indentation, got a tab"},
    {"not_utf8", config_with(1, "run: {folder: runs/t\xe4st}"), "run.yaml:1:21: expected UTF-8, got the byte 0xe4"},
    {"overlong_utf8", config_with(1, "run: {folder: runs/\xc0\xaf}"),
     "run.yaml:1:20: expected UTF-8, got the byte 0xc0"},
    {"byte_order_mark", "\xef\xbb\xbf" + config_with(0, ""),
     "run.yaml:1:1: expected plain UTF-8, got a byte order mark; save the file without it"},
    {"utf16", std::string("\xff\xfes\0t\0", 6), "run.yaml:1:1: expected UTF-8, got UTF-16; save the file as UTF-8"},
    {"nul", config_with(2, std::string("steps: 1\0", 9)),
     "run.yaml:2:9: expected text, got the control character 0x00"},
    {"escape", config_with(2, "steps: \x1b[31m1"), "run.yaml:2:8: expected text, got the control character 0x1b"},
    {"open_list", config_with(14, "gradient_checkpointing: [0, 1"),
     "run.yaml:15:1: expected YAML: end of sequence flow not found"},
    {"two_colons", config_with(2, "steps: a: b"), "run.yaml:2:9: expected YAML: illegal map value"},
    {"unknown_alias", config_with(2, "steps: *nothing"),
     "run.yaml:2:8: expected YAML: the referenced anchor is not defined"},
    {"alias_to_itself", config_with(2, "steps: &a [*a]"),
     "run.yaml:2:12: expected a value, got an alias inside its own anchor"},
    {"alias_bomb", alias_bomb(), "run.yaml:5:55: expected at most 100000 values, aliases counted each time"},
    {"deep_lists", "steps: " + std::string(100'000, '['), "run.yaml:1:40: expected at most 64 levels of nesting"},
    {"deep_maps", "steps: " + std::string(100'000, '{'), "run.yaml:1:71: expected at most 64 levels of nesting"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadTextTest, testing::ValuesIn(kBadTexts),
                         [](const auto& info) { return info.param.name; });

TEST(BadConfigText, RandomEditsAreReadOrRefused) {
  // Bytes that have a meaning in YAML break a parser more often than random ones.
  const std::string bytes = "{}[],:#&*!|>'\"%@`-?<~ \t\n\r\\09eE._xan\xc3\xff";
  std::mt19937 random(7);
  const auto below = [&](size_t size) { return std::uniform_int_distribution<size_t>(0, size - 1)(random); };
  int good = 0, bad = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = config_with(0, "");
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(3)) {
        case 0:
          text[at] = bytes[below(bytes.size())];
          break;
        case 1:
          text.insert(at, 1, bytes[below(bytes.size())]);
          break;
        default:
          text.erase(at, 1 + below(20));
      }
    }
    try {
      parse_trainer_config("run.yaml", text, {});
      ++good;
    } catch (const configs::ConfigErrors& errors) {
      EXPECT_NE(std::string(errors.what()).find("run.yaml:"), std::string::npos) << errors.what();
      ++bad;
    }
  }
  EXPECT_GT(good, 30);
  EXPECT_GT(bad, 1000);
}

TEST(BadConfigText, ThousandsOfErrorsAreCountedAndCutShort) {
  std::string text = config_with(0, "");
  for (int i = 0; i < 20'000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const double start = processor_milliseconds();
  const std::string report = report_of(text);
  EXPECT_LT(processor_milliseconds() - start, 1000);
  EXPECT_NE(report.find("and 19900 more\n20000 errors in the configuration\n"), std::string::npos);
}

}  // namespace
}  // namespace strata::trainer
