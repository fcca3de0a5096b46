// SPDX-License-Identifier: MIT
// Random expressions at the levels of the CPU, and wrong lists of their tiles, which the same rule refuses.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/attention/prove_levels.h"
#include "tests/kernels/attention/proved_call.h"
#include "tests/kernels/pattern/tile_mutants.h"

namespace strata::kernels {
namespace {

class RandomAttentionOnCpu : public testing::TestWithParam<int> {};

TEST_P(RandomAttentionOnCpu, IsThatOfLoopsOverPairs) { prove_levels(c10::kCPU, GetParam(), /*most_positions=*/90); }

INSTANTIATE_TEST_SUITE_P(Parts, RandomAttentionOnCpu,
                         testing::Range(0, std::getenv("STRATA_TEST_ALL") == nullptr ? 1 : kParts));

using Lists = std::vector<Tiles>;  // tiles of the rows of a batch

Lists lists_of(const RandomAttention& call, TileSize size) {
  const AttentionShape& s = call.shape;
  Lists lists;
  for (const auto& documents : call.documents.row_ids) {
    lists.push_back(compile_tiles(s.pattern, s.query_count(), s.positions, size, documents, s.first_query));
  }
  return lists;
}

// The pairs that a kernel sees which reads these lists: all of a full tile, and the visible ones of a partial tile.
VisiblePairs seen_through(const Lists& lists, const RandomAttention& call, TileSize size, const VisiblePairs& visible) {
  const int64_t queries = call.shape.query_count(), keys = call.shape.positions;
  VisiblePairs seen = {std::vector<uint8_t>(visible.by_query.size()), std::vector<uint8_t>(visible.by_key.size())};
  for (const bool by_key : {false, true}) {
    std::vector<uint8_t>& pairs = by_key ? seen.by_key : seen.by_query;
    for (size_t row = 0; row < lists.size(); ++row) {
      const TileList& list = by_key ? lists[row].by_key : lists[row].by_query;
      for (size_t own = 0; own < list.partial.size(); ++own) {
        for (int32_t i = list.offsets[own]; i < list.offsets[own + 1]; ++i) {
          const bool is_full = i >= list.offsets[own] + list.partial[own];
          const int64_t other = list.indices[static_cast<size_t>(i)], tile = static_cast<int64_t>(own);
          const int64_t query = (by_key ? other : tile) * size.queries, key = (by_key ? tile : other) * size.keys;
          for (int64_t q = query; q < std::min(query + size.queries, queries); ++q) {
            for (int64_t k = key; k < std::min(key + size.keys, keys); ++k) {
              const auto pair = static_cast<size_t>((static_cast<int64_t>(row) * queries + q) * keys + k);
              if (is_full || visible.by_query[pair]) pairs[pair] = 1;
            }
          }
        }
      }
    }
  }
  return seen;
}

// Returns a list with one mistake of each kind, if the list has a place for it.
std::vector<std::pair<std::string, TileList>> mutants_of(const TileList& list, Draws& draws) {
  std::vector<std::pair<std::string, TileList>> mutants;
  std::vector<size_t> with_tiles, with_partial;
  for (size_t row = 0; row < list.partial.size(); ++row) {
    if (list.offsets[row] < list.offsets[row + 1]) with_tiles.push_back(row);
    if (list.partial[row] > 0) with_partial.push_back(row);
  }
  const auto one_of = [&](const std::vector<size_t>& rows) {
    return rows[static_cast<size_t>(draws.below(static_cast<int64_t>(rows.size())))];
  };
  if (!with_tiles.empty()) {
    const size_t row = one_of(with_tiles);
    const auto place = list.offsets[row] + static_cast<int32_t>(draws.below(list.offsets[row + 1] - list.offsets[row]));
    mutants.emplace_back("a tile dropped", list);
    drop(mutants.back().second, row, place);
    mutants.emplace_back("a tile one too far", list);
    ++mutants.back().second.indices[static_cast<size_t>(place)];
  }
  if (!with_partial.empty()) {
    mutants.emplace_back("a partial tile for a full one", list);
    take_for_full(mutants.back().second, one_of(with_partial));
  }
  return mutants;
}

// A wrong list that leaves the visible pairs as they are is no mistake, as at the end of a row.
TEST(RandomAttention, WrongListsOfTilesAreRefused) {
  constexpr TileSize kSizes[] = {{16, 16}, {32, 16}, {16, 64}, {64, 64}};
  Draws draws(1);
  at::manual_seed(1);
  std::map<std::string, std::pair<int, int>> refused_of_all;
  for (int i = 0; i < 40; ++i) {
    const RandomAttention call = random_attention(draws, 90);
    const ProvedCall proved(call, i % 2 == 0 ? at::kBFloat16 : at::kFloat);
    const TileSize size = kSizes[draws.below(4)];
    const Lists right = lists_of(call, size);
    ASSERT_EQ(seen_through(right, call, size, proved.visible()), proved.visible()) << call.text();
    ASSERT_EQ(proved.refusal(proved.values_that_see(proved.visible())), "") << call.text();
    const auto row = static_cast<size_t>(draws.below(call.shape.batch));
    for (TileList Tiles::*list : {&Tiles::by_query, &Tiles::by_key}) {
      for (const auto& [mistake, mutant] : mutants_of(right[row].*list, draws)) {
        Lists wrong = right;
        wrong[row].*list = mutant;
        const VisiblePairs seen = seen_through(wrong, call, size, proved.visible());
        if (seen == proved.visible()) continue;
        auto& [refused, all] = refused_of_all[mistake];
        const bool is_refused = !proved.refusal(proved.values_that_see(seen)).empty();
        refused += is_refused ? 1 : 0, ++all;
        if (!is_refused) std::printf("%s passes: %s\n", mistake.c_str(), call.text().c_str());
      }
    }
  }
  EXPECT_EQ(refused_of_all.size(), 3U);
  for (const auto& [mistake, counts] : refused_of_all) {
    std::printf("%s: %d of %d are refused\n", mistake.c_str(), counts.first, counts.second);
    EXPECT_GT(counts.second, 20) << mistake;
    EXPECT_GE(counts.first, counts.second - counts.second / 20) << mistake;
  }
}

}  // namespace
}  // namespace strata::kernels
