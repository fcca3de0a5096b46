// SPDX-License-Identifier: MIT
#include "tests/chosen_file.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>

namespace strata::tests {
namespace {

std::string_view without(std::string_view text, std::string_view end) {
  if (text.ends_with(end)) text.remove_suffix(end.size());
  return text;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool are_of(std::string_view name, const testing::TestSuite& suite) {
  const std::string_view file = without(last_part(suite.GetTestInfo(0)->file()), ".cc");
  return file == without(name, "_ranks") || file == without(name, "_gpu_test");
}

}  // namespace

bool choose_file(std::string_view path) {
  const std::string_view name = last_part(path);
  std::string chosen, others;
  for (int i = 0; i < testing::UnitTest::GetInstance()->total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *testing::UnitTest::GetInstance()->GetTestSuite(i);
    (are_of(name, suite) ? chosen : others) += std::string(":") + suite.name() + ".*";
  }
  if (chosen.empty()) {
    std::cerr << "no file of this executable has tests named '" << name << "'; start it by a link with such a name\n";
    return false;
  }
  const std::string filter = GTEST_FLAG_GET(filter);
  if (filter == "*") {
    GTEST_FLAG_SET(filter, chosen.substr(1));
  } else if (!others.empty()) {
    GTEST_FLAG_SET(filter, filter + (filter.find('-') == filter.npos ? "-" : ":") + others.substr(1));
  }
  return true;
}

}  // namespace strata::tests
