// SPDX-License-Identifier: MIT
#include "base/integer_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata {
namespace {

// Returns what is wrong with these words of a command line, or "".
std::string problem_of(std::vector<std::string> words) {
  CLI::App app("", "test");
  int64_t number = 0;
  uint64_t bytes = 0;
  std::optional<int64_t> step;
  std::vector<int64_t> ids;
  std::string text;
  app.add_option("--number", number)->check(CLI::NonNegativeNumber);
  app.add_option("--bytes", bytes);
  app.add_option("--step", step);
  app.add_option("--ids", ids);
  app.add_option("--text", text);
  check_integer_options(app);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(IntegerOptions, FitInto64Bits) {
  const std::string least = "-9223372036854775808", most = "9223372036854775807", above = "9223372036854775808";
  EXPECT_EQ(problem_of({"--number", most, "--step", least, "--ids", "1", least, most}), "");
  EXPECT_EQ(problem_of({"--bytes", "18446744073709551615", "--text", "100000000000000000000"}), "");
  const std::string expected = " does not fit; expected an integer from -2^63 to 2^63 - 1";
  for (const char* option : {"--number", "--step", "--ids"}) {
    EXPECT_EQ(problem_of({option, above}), std::string(option) + ": " + above + expected);
  }
  EXPECT_EQ(problem_of({"--ids", "1", "-100000000000000000000"}), "--ids: -100000000000000000000" + expected);
  for (const char* bytes : {"-5", "18446744073709551616"}) {
    EXPECT_EQ(problem_of({std::string("--bytes=") + bytes}),
              std::string("--bytes: ") + bytes + " does not fit; expected an integer from 0 to 2^64 - 1");
  }
}

TEST(IntegerOptions, OtherProblemsAreTold) {
  EXPECT_NE(problem_of({"--number", "-1"}), "");
  EXPECT_NE(problem_of({"--ids", "5x"}), "");
}

}  // namespace
}  // namespace strata
