// SPDX-License-Identifier: MIT
// Checks that only whole numbers from 0 to 2^63 - 1 are counts.
#include "base/json_count.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace strata {
namespace {

std::optional<int64_t> count_in(const char* text) { return json_count(nlohmann::json::parse(text)); }

TEST(JsonCount, TakesWholeNumbers) {
  EXPECT_EQ(count_in("0"), 0);
  EXPECT_EQ(count_in("20"), 20);
  EXPECT_EQ(count_in("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(JsonCount, RefusesEverythingElse) {
  for (const char* text : {"-1", "1.5", "20.0", "1e3", "9223372036854775808", "18446744073709551616", "null", "true",
                           "\"20\"", "[20]", "{}"}) {
    EXPECT_EQ(count_in(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace strata
