// SPDX-License-Identifier: MIT
#include "configs/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "configs/value.h"

namespace strata::configs {
namespace {

TEST(Number, Integers) {
  const std::pair<const char*, int64_t> good[] = {{"0", 0},
                                                  {"-0", 0},
                                                  {"17", 17},
                                                  {"+17", 17},
                                                  {"-17", -17},
                                                  {"1e9", 1'000'000'000},
                                                  {"1E3", 1000},
                                                  {"1.25e2", 125},
                                                  {"120e-1", 12},
                                                  {"10_000", 10'000},
                                                  {"16.0", 16},
                                                  {"0e99", 0},
                                                  {"9223372036854775807", std::numeric_limits<int64_t>::max()},
                                                  {"-9223372036854775808", std::numeric_limits<int64_t>::min()}};
  for (const auto& [text, value] : good) EXPECT_EQ(parse_integer(text).value, value) << text;
  for (const char* text : {"",
                           "-",
                           "+",
                           ".",
                           "e3",
                           "1e",
                           "1e+",
                           "1.5",
                           "1_",
                           "_1",
                           "1__0",
                           "1e-1",
                           "0x10",
                           "0b1",
                           "0o7",
                           "010",
                           "00",
                           "1 ",
                           " 1",
                           "1,000",
                           "nan",
                           "inf",
                           "9223372036854775808",
                           "1e19",
                           "1e99999999999999999999",
                           "--1",
                           "1-",
                           "\xd9\xa1"}) {
    EXPECT_FALSE(parse_integer(text).value) << text;
  }
}

TEST(Number, Reals) {
  const std::pair<const char*, double> good[] = {
      {"0", 0},       {"0.1", 0.1},    {".5", 0.5},           {"5.", 5},
      {"4e-3", 4e-3}, {"-1E+2", -100}, {"1_000.25", 1000.25}, {"1e-300", 1e-300}};
  for (const auto& [text, value] : good) EXPECT_EQ(parse_real(text).value, value) << text;
  for (const char* text : {"", ".", "-.", "nan", ".nan", "inf", ".inf", "-.inf", "1e999", "1e-999", "0x1p3", "1f",
                           "01.5", "1.5.2", "1e5e5", "infinity", "1._5"}) {
    EXPECT_FALSE(parse_real(text).value) << text;
  }
}

TEST(Number, EveryDoubleReadsBackFromItsText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = random();
    double number;
    static_assert(sizeof number == sizeof bits);
    __builtin_memcpy(&number, &bits, sizeof number);
    if (!(number - number == 0)) continue;  // nan, inf
    EXPECT_EQ(parse_real(to_text(number)).value, number) << to_text(number);
  }
  EXPECT_EQ(to_text(500000.0), "500000");
  EXPECT_EQ(to_text(0.1), "0.1");
}

}  // namespace
}  // namespace strata::configs
