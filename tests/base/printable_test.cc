// SPDX-License-Identifier: MIT
#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Printable, ReplacesControlCharactersOnly) {
  EXPECT_EQ(printable("a\n\x1b[2J\x7f\xff\xc3\xa4"), "a??[2J?\xff\xc3\xa4");
}

TEST(PrintableUtf8, ReplacesWhatIsNoText) {
  EXPECT_EQ(printable_utf8(""), "");
  EXPECT_EQ(printable_utf8("runs/jos\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x99\x82.yaml"),
            "runs/jos\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x99\x82.yaml");
  EXPECT_EQ(printable_utf8("jos\xe9/x.yaml"), "jos?/x.yaml");
  EXPECT_EQ(printable_utf8("a\nb\tc\x1b[2Jd\x7f"), "a?b?c?[2Jd?");
  EXPECT_EQ(printable_utf8("\xc2\x9b[\xc2\xa0"), "?[\xc2\xa0");          // U+009B begins sequences as ESC [ does
  EXPECT_EQ(printable_utf8("\xc0\xaf\xed\xa0\x80\xe2\x82"), "???????");  // overlong, a surrogate, cut off
}

TEST(PrintableStart, CutsBetweenCharacters) {
  EXPECT_EQ(printable_start("<f8\n\xff"), "<f8??");
  EXPECT_EQ(printable_start(std::string(40, 'x')), std::string(40, 'x'));
  EXPECT_EQ(printable_start(std::string(39, 'x') + "\xc3\xa4" + std::string(59, 'x')),
            std::string(39, 'x') + "... (61 bytes more)");
}

TEST(PrintableLines, KeepLinesAndHaveAnEnd) {
  EXPECT_EQ(printable_lines(""), "");
  EXPECT_EQ(printable_lines("a\x1b]0;b\x07\n\tc\xff\n"), "a?]0;b?\n c?\n");
  EXPECT_EQ(printable_lines(std::string(5000, 'x') + "\nend"), std::string(4096, 'x') + "... (904 bytes more)\nend");
  const std::string wide = "\xe2\x82\xac";  // characters are not cut
  EXPECT_EQ(printable_lines(std::string(4095, 'x') + wide + wide), std::string(4095, 'x') + "... (6 bytes more)");
  std::string long_message;
  for (int line = 0; line < 70 << 10; ++line) long_message += "\n";
  EXPECT_EQ(printable_lines(long_message), std::string(64 << 10, '\n') + "... (6144 bytes more)");
}

}  // namespace
}  // namespace strata
