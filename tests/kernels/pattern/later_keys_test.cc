// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/later_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/pattern/layer_reach.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/visible.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

// Returns whether a query sees a later key that is not known. It looks at each pair.
bool sees_later(const Pattern& pattern, int64_t known, int64_t positions) {
  const std::vector<int32_t> one_document(static_cast<size_t>(positions));
  for (int64_t query = 0; query < positions; ++query) {
    for (int64_t key = std::max(query + 1, known); key < positions; ++key) {
      if (sees(pattern, query, key, one_document)) return true;
    }
  }
  return false;
}

TEST(SeesLaterKeys, EqualsTheDefinition) {
  for (const char* text :
       {"causal", "full", "window(4)", "causal | prefix(6)", "causal & global(2)", "causal | global(3)",
        "blocks(0.01, 1)", "causal | blocks(0.5, 1)", "(causal | prefix(9)) & (window(200) | full)",
        "window(3) & documents", "causal & window(2) | causal & global(7)", "window(1)", "dilated(2, 139)",
        "dilated(2, 140)"}) {
    const Pattern pattern = parse_pattern(text);
    for (const int64_t known : {0, 1, 6, 70, 130, 139, 140}) {
      EXPECT_EQ(sees_later_keys(pattern, known, 140), sees_later(pattern, known, 140)) << text << ", known " << known;
    }
  }
  Draws draws(3);
  for (int i = 0; i < 1000; ++i) {
    const int64_t positions = 1 + draws.below(150), known = draws.below(positions + 2);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(6), positions);
    EXPECT_EQ(sees_later_keys(pattern, known, positions), sees_later(pattern, known, positions)) << to_text(pattern);
  }
}

TEST(WithoutPrefixes, OnlyTheirKeysAreGone) {
  for (const auto& [text, is_seen] : {std::pair{"causal | prefix(6)", false},
                                      {"prefix(6)", false},
                                      {"(causal | prefix(6)) & window(4)", false},
                                      {"causal | global(4) & prefix(6)", false},
                                      {"causal | prefix(6) | blocks(0, 1)", true},
                                      {"causal | global(1)", true},
                                      {"prefix(6) & causal | window(2)", true}}) {
    const Pattern pattern = parse_pattern(text);
    EXPECT_EQ(sees_later_keys(without_prefixes(pattern), 0, 140), is_seen) << text;
    for (int64_t query = 0; query < 20; ++query) {
      for (int64_t key = 6; key < 20; ++key) {
        EXPECT_EQ(sees(without_prefixes(pattern), query, key), sees(pattern, query, key)) << text;
      }
    }
  }
}

// [query][token]: whether the token reaches the query.
using Reach = std::vector<std::vector<bool>>;

// Carries tokens through layers by loops over queries, keys and tokens.
std::vector<bool> reached_by_loops(const std::vector<Pattern>& layers, int64_t positions) {
  const auto size = static_cast<size_t>(positions);
  const std::vector<int32_t> one_document(size);
  Reach reach(size, std::vector<bool>(size));
  for (size_t i = 0; i < size; ++i) reach[i][i] = true;
  for (const Pattern& pattern : layers) {
    Reach next = reach;
    for (size_t query = 0; query < size; ++query) {
      for (size_t key = 0; key < size; ++key) {
        if (!sees(pattern, static_cast<int64_t>(query), static_cast<int64_t>(key), one_document)) continue;
        for (size_t token = 0; token < size; ++token) next[query][token] = next[query][token] || reach[key][token];
      }
    }
    reach = std::move(next);
  }
  std::vector<bool> reached(size);
  for (size_t query = 0; query < size; ++query) {
    for (size_t token = query + 1; token < size; ++token) reached[query] = reached[query] || reach[query][token];
  }
  return reached;
}

std::vector<int64_t> places(const std::vector<bool>& set) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i]) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

// Queries 0 to n - 2 of a prefix see the key after them.
TEST(ReachedByLater, AllOfAPrefixButItsLastPosition) {
  const Pattern causal = parse_pattern("causal"), prefix = parse_pattern("causal | prefix(4)");
  const std::vector<int64_t> expected = {0, 1, 2};
  for (const std::vector<Pattern>& layers :
       std::vector<std::vector<Pattern>>{{prefix}, {prefix, causal}, {causal, prefix, prefix}, {prefix & prefix}}) {
    EXPECT_EQ(places(reached_by_later(layers, 9)), expected);
  }
  EXPECT_EQ(places(reached_by_later(std::vector{prefix, parse_pattern("causal | prefix(6)")}, 9)),
            (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(reached_by_later(std::vector{causal, causal}, 9), std::vector<bool>(9));
  EXPECT_EQ(reached_by_later(std::vector{parse_pattern("causal | prefix(1)")}, 9), std::vector<bool>(9));
  EXPECT_EQ(places(reached_by_later(std::vector{parse_pattern("causal | prefix(100)")}, 3)),
            (std::vector<int64_t>{0, 1}));
}

// One layer shows position 0 key 3, and the next one shows position 1 what position 0 has seen.
TEST(ReachedByLater, TokensTravelOverLayers) {
  const Pattern far = parse_pattern("(causal | prefix(4)) & dilated(2, 3)"), causal = parse_pattern("causal");
  EXPECT_EQ(places(reached_by_later(std::vector{far}, 9)), (std::vector<int64_t>{0}));
  EXPECT_EQ(places(reached_by_later(std::vector{far, causal}, 9)), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(places(reached_by_later(std::vector{causal, far}, 9)), (std::vector<int64_t>{0}));
}

TEST(ReachedByLater, AgreesWithLoops) {
  Draws draws(7);
  int some = 0, not_all = 0;
  for (int i = 0; i < 600; ++i) {
    const int64_t positions = 1 + draws.below(draws.below(4) == 0 ? 150 : 40);
    std::vector<Pattern> layers(static_cast<size_t>(1 + draws.below(3)));
    int64_t longest = 0;
    for (Pattern& layer : layers) {
      const int64_t prefix = 1 + draws.below(positions);
      longest = std::max(longest, prefix);
      layer = Pattern{.kind = Pattern::Kind::causal};
      // The random part sees later keys only inside of the prefix.
      if (draws.below(4) != 0) {
        layer = layer | (random_pattern(draws, 1 + draws.below(3), positions) &
                         Pattern{.kind = Pattern::Kind::prefix, .n = prefix});
      }
      if (draws.below(2) == 0) layer = layer & random_pattern(draws, 1 + draws.below(2), positions);
      ASSERT_FALSE(sees_later_keys(without_prefixes(layer), 0, positions)) << to_text(layer);
    }
    const std::vector<bool> reached = reached_by_later(layers, positions);
    EXPECT_EQ(reached, reached_by_loops(layers, positions)) << to_text(layers[0]) << ", " << positions << " positions";
    const int64_t count = std::ranges::count(reached, true);
    some += count > 0;
    not_all += count > 0 && count + 1 < std::min(longest, positions);
  }
  EXPECT_GT(some, 100);
  EXPECT_GT(not_all, 30);
}

// Patterns of distances, borders and blocks, one of which shows a key only every 1,113,121 positions.
TEST(ReachedByLater, APrefixOfAMillionTakesLessThanASecond) {
  constexpr int64_t kPrefix = 1'000'000;
  const std::string prefix = "(causal | prefix(1000000))";
  for (const auto& [text, count] :
       {std::pair{prefix, kPrefix - 1},
        {prefix + " & window(10)", kPrefix - 1},
        {prefix + " & window(1)", int64_t{0}},
        {prefix + " & dilated(1000, 1000)", kPrefix - 1000},
        {prefix + " & dilated(20000, 101) & dilated(20000, 103) & dilated(20000, 107)", int64_t{0}},
        {"causal | prefix(1000000) & global(5)", int64_t{kPrefix - 1}},
        {prefix + " & blocks(0.5, 1)", kPrefix - 1},
        {prefix + " & (window(300) | global(100))", kPrefix - 1}}) {
    // Each further layer of a dilated prefix takes longer: its keys have the same latest tokens everywhere.
    const std::vector<Pattern> layers(text.ends_with("dilated(1000, 1000)") ? 1 : 24, parse_pattern(text));
    const std::clock_t before = std::clock();
    const std::vector<bool> reached = reached_by_later(layers, kPrefix + 100'000);
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 1) << text;
    EXPECT_EQ(std::ranges::count(reached, true), count) << text;
  }
}

TEST(AfterLayer, EqualsTheDefinition) {
  Draws draws(11);
  for (int i = 0; i < 300; ++i) {
    const int64_t positions = 1 + draws.below(700);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(5), positions);
    const std::vector<int32_t> one_document(static_cast<size_t>(positions));
    std::vector<int64_t> last(static_cast<size_t>(positions));
    for (int64_t position = 0; position < positions; ++position) {
      last[static_cast<size_t>(position)] = position + (draws.below(3) == 0 ? draws.below(positions - position) : 0);
    }
    std::vector<int64_t> expected = last;
    for (int64_t query = 0; query < positions; ++query) {
      for (int64_t key = 0; key < positions; ++key) {
        int64_t& reached = expected[static_cast<size_t>(query)];
        if (last[static_cast<size_t>(key)] <= reached || !sees(pattern, query, key, one_document)) continue;
        reached = last[static_cast<size_t>(key)];
      }
    }
    ASSERT_EQ(reached_after_layer(compile_program(for_one_document(pattern)), last), expected) << to_text(pattern);
  }
}

}  // namespace
}  // namespace strata::kernels
