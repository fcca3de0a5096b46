// SPDX-License-Identifier: MIT
#include "trainer/report/console.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text/grouped_digits.h"
#include "tests/trainer/report/captured.h"

namespace strata::trainer {
namespace {

TEST(Console, Texts) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(18123), "18,123");
  EXPECT_EQ(grouped_digits(1234567), "1,234,567");
  EXPECT_EQ(grouped_digits(-123456), "-123,456");
  EXPECT_EQ(duration(0.4), "0:00");
  EXPECT_EQ(duration(59.6), "1:00");
  EXPECT_EQ(duration(3723), "1:02:03");
  EXPECT_EQ(progress_text(120, 1200, 83), "step 120/1200   10 %   1:23 left");
}

TEST(Console, TheProgressLineGivesWayToLines) {
  const Captured out, warnings;
  Console console({.out = out.file(), .warnings = warnings.file(), .terminal = true, .color = false});
  console.progress(1, 4);  // starts the measurement
  console.progress(2, 4);
  console.progress(3, 4);  // too soon to draw again
  console.line("line");
  console.warning("careful");
  EXPECT_EQ(out.text(), "\r\033[Kstep 2/4   50 %   0:00 left\r\033[Kline\n");
  EXPECT_EQ(warnings.text(), "warning: careful\n");

  const Captured pipe;
  Console plain({.out = pipe.file()});
  plain.progress(1, 4);
  plain.progress(2, 4);
  EXPECT_EQ(pipe.text(), "");
}

TEST(Console, LinesDoNotSteerTheTerminal) {
  const Captured out, warnings;
  Console console({.out = out.file(), .warnings = warnings.file()});
  console.line("a\x1b[2Jb\nc");
  console.warning("d\xc2\x9b[e");
  EXPECT_EQ(out.text(), "a?[2Jb\nc\n");
  EXPECT_EQ(warnings.text(), "warning: d?[e\n");
}

TEST(Console, TheLauncherSaysWhetherThereIsATerminal) {
  unsetenv("NO_COLOR");
  unsetenv("STRATA_TERMINAL");
  EXPECT_FALSE(Console::options_from_environment().terminal);
  setenv("STRATA_TERMINAL", "0", 1);
  EXPECT_FALSE(Console::options_from_environment().terminal);
  setenv("STRATA_TERMINAL", "1", 1);
  EXPECT_TRUE(Console::options_from_environment().terminal);
  EXPECT_TRUE(Console::options_from_environment().color);
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(Console::options_from_environment().terminal);
  EXPECT_FALSE(Console::options_from_environment().color);
}

}  // namespace
}  // namespace strata::trainer
