// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/tile_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/attention/pattern/parse_pattern.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

// Returns the first pair whose bit is not what the program says of pairs of one document, or of two. Empty: none.
std::string fault(const Program& program, int64_t positions, bool same) {
  TileMasks masks(positions);
  const std::vector<int32_t> numbers = masks.add(with_documents(program, same)), words = masks.words();
  const int64_t tiles = masks.tiles();
  if (static_cast<int64_t>(numbers.size()) != tiles * tiles) return "a wrong number of tiles";
  for (int64_t query = 0; query < tiles * kMaskTile; ++query) {
    for (int64_t key = 0; key < tiles * kMaskTile; ++key) {
      const int64_t mask = numbers[static_cast<size_t>(query / kMaskTile * tiles + key / kMaskTile)];
      const int64_t word = (mask * kMaskTile + query % kMaskTile) * 4 + key % kMaskTile / 32;
      const bool bit = (static_cast<uint32_t>(words[static_cast<size_t>(word)]) >> (key % 32) & 1) != 0;
      const bool seen = std::max(query, key) < positions &&
                        sees(program, static_cast<int32_t>(query), static_cast<int32_t>(key), 0, same ? 0 : 1);
      if (bit != seen) return "query " + std::to_string(query) + ", key " + std::to_string(key);
    }
  }
  return "";
}

TEST(TileMasks, HaveABitForEachVisiblePair) {
  Draws draws(5);
  for (int i = 0; i < 200; ++i) {
    const int64_t positions = 1 + draws.below(draws.below(4) == 0 ? 600 : 270);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(5), positions);
    for (const bool same : {true, false}) {
      ASSERT_EQ(fault(compile_program(pattern), positions, same), "")
          << to_text(pattern) << " of " << positions << " positions, " << (same ? "one document" : "two documents");
    }
  }
}

std::vector<int32_t> numbers_of(const char* pattern, int64_t positions) {
  return TileMasks(positions).add(compile_program(parse_pattern(pattern)));
}

TEST(TileMasks, AreSharedByTilesThatSeeTheSame) {
  using Numbers = std::vector<int32_t>;
  EXPECT_EQ(numbers_of("causal", 384), (Numbers{2, 0, 0, 1, 2, 0, 1, 1, 2}));
  EXPECT_EQ(numbers_of("causal & window(100)", 384), (Numbers{2, 0, 0, 3, 2, 0, 0, 3, 2}));
  EXPECT_EQ(numbers_of("full", 300), (Numbers{1, 1, 2, 1, 1, 2, 3, 3, 4}));
  TileMasks masks(256);
  const Program program = compile_program(parse_pattern("causal & documents | prefix(130)"));
  EXPECT_EQ(masks.add(with_documents(program, true)), (Numbers{1, 2, 1, 3}));
  EXPECT_EQ(masks.add(with_documents(program, false)), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(masks.words().size(), size_t{4} * 512);
}

}  // namespace
}  // namespace strata::kernels
