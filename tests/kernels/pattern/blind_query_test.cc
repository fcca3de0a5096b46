// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/blind_query.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/visible.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

// The first query that sees no key of the row, by a loop over pairs.
int64_t first_blind(const Pattern& pattern, int64_t positions, const std::vector<int32_t>& document_of) {
  for (int64_t query = 0; query < positions; ++query) {
    bool any = false;
    for (int64_t key = 0; key < positions && !any; ++key) any = sees(pattern, query, key, document_of);
    if (!any) return query;
  }
  return -1;
}

TEST(BlindQuery, FirstRow) {
  for (const auto& [text, row] : {std::pair{"full", -1},
                                  {"causal", -1},
                                  {"window(1)", -1},
                                  {"dilated(3, 7)", -1},
                                  {"prefix(1)", -1},
                                  {"global(1)", -1},
                                  {"blocks(0, 1)", -1},
                                  {"causal & documents", -1},
                                  {"causal & prefix(4)", -1},
                                  {"window(4) & prefix(4)", 7},
                                  {"dilated(3, 5) & prefix(4)", 4},
                                  {"documents & prefix(4)", 4},
                                  {"documents & (prefix(4) | window(2))", -1},
                                  {"documents & prefix(4) | global(1)", -1},
                                  {"blocks(0, 1) & prefix(4)", 64},
                                  {"window(99) & prefix(2)", -1}}) {
    EXPECT_EQ(find_blind_query(parse_pattern(text), 100).value_or(-1), row) << text;
  }
}

TEST(BlindQuery, AgreesWithALoopOverPairs) {
  Draws draws(5);
  int blind = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t positions = 1 + draws.below(150);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(6), positions);
    std::vector<int32_t> alone(static_cast<size_t>(positions));
    std::iota(alone.begin(), alone.end(), 0);
    const int64_t row = find_blind_query(pattern, positions).value_or(-1);
    EXPECT_EQ(row, first_blind(pattern, positions, alone)) << to_text(pattern);
    // Where no packing of documents is known, none may leave a query without a key that is not reported.
    if (row < 0) {
      EXPECT_EQ(first_blind(pattern, positions, random_documents(draws, positions)), -1) << to_text(pattern);
    }
    blind += row >= 0;
  }
  EXPECT_GT(blind, 50);
}

TEST(BlindQuery, Message) {
  EXPECT_NO_THROW(check_every_query_sees_a_key(parse_pattern("window(4) & prefix(4)"), 7));
  try {
    check_every_query_sees_a_key(parse_pattern("window(4)&prefix(4)"), 100);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_STREQ(error.what(),
                 "attention pattern: in `window(4) & prefix(4)` the query at row 7 of 100 sees no key; add `| "
                 "window(1)`, so that each query sees itself");
  }
}

}  // namespace
}  // namespace strata::kernels
