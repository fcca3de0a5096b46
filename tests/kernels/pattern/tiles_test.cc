// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/tiles.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "tests/kernels/pattern/random_pattern.h"
#include "tests/kernels/pattern/tile_check.h"
#include "tests/kernels/pattern/tile_mutants.h"

namespace strata::kernels {
namespace {

constexpr std::array<int64_t, 6> kLengths = {1, 63, 64, 65, 129, 257};

TileCase random_case(Draws& draws, int64_t longest) {
  static constexpr std::array<int64_t, 6> kSizes = {1, 16, 48, 64, 100, 128};
  const auto one_of = [&](const auto& numbers) { return numbers[static_cast<size_t>(draws.below(6))]; };
  const auto length = [&] {
    return draws.below(4) == 0 || longest > kLengths.back() ? 1 + draws.below(longest) : one_of(kLengths);
  };
  TileCase test = {.pattern = {}, .queries = length(), .keys = length(), .size = {one_of(kSizes), one_of(kSizes)}};
  if (draws.below(2) == 0) test.keys = test.queries;
  if (draws.below(3) == 0) test.first_query = draws.below(200);
  const int64_t positions = std::max(test.first_query + test.queries, test.keys);
  test.pattern = random_pattern(draws, 1 + draws.below(draws.below(8) == 0 ? kMostWords : 4), positions);
  test.document_of = random_documents(draws, positions);
  return test;
}

Tiles tiles_of(const TileCase& test) {
  return compile_tiles(test.pattern, test.queries, test.keys, test.size, test.document_of, test.first_query);
}

TEST(Tiles, AThousandExpressionsAgreeWithALoopOverPairs) {
  Draws draws(3);
  std::array<int, 3> found = {};
  const int cases = std::getenv("STRATA_TEST_ALL") == nullptr ? 1000 : 50000;
  for (int i = 0; i < cases; ++i) {
    const TileCase test = random_case(draws, kLengths.back());
    const Tiles tiles = tiles_of(test);
    ASSERT_EQ(tile_fault(test, exact_tiles(test), tiles), "") << test.text();
    found[0] += tiles.partial_tiles > 0, found[1] += tiles.full_tiles > 0;
    found[2] += tiles.partial_tiles + tiles.full_tiles < tiles.tiles;
  }
  for (const int with_state : found) EXPECT_GT(with_state, cases / 5) << "hardly a case with some kind of tile";
}

// So long that counts are kept and used again.
TEST(Tiles, LongRowsAgreeWithALoopOverPairs) {
  Draws draws(4);
  for (int i = 0; i < 30; ++i) {
    const TileCase test = random_case(draws, 1500);
    ASSERT_EQ(tile_fault(test, exact_tiles(test), tiles_of(test)), "") << test.text();
  }
}

// The parts of an expression that both see some pairs of a tile may together see none of them, or all.
TEST(Tiles, PartsThatAddUpToNoneOrAll) {
  for (const char* text : {"dilated(100, 2) & causal & global(1)", "(causal & window(64)) & prefix(1)",
                           "window(40) & prefix(20) & global(90)", "causal | prefix(64) | window(64)",
                           "documents & prefix(70) | window(30)", "dilated(2, 64) & window(64)"}) {
    for (const TileSize size : {TileSize{64, 64}, TileSize{32, 128}, TileSize{50, 50}}) {
      std::vector<int32_t> document_of(257);
      for (size_t i = 0; i < document_of.size(); ++i) document_of[i] = static_cast<int32_t>(i / 60);
      const TileCase test = {parse_pattern(text), 257, 257, size, document_of};
      EXPECT_EQ(tile_fault(test, exact_tiles(test), tiles_of(test)), "") << test.text();
    }
  }
}

TEST(Tiles, ListsOfThePage) {
  const Tiles tiles = compile_tiles(parse_pattern("prefix(70)"), 150, 150, {64, 64});
  EXPECT_EQ(tiles.by_query, (TileList{{0, 2, 4, 6}, {1, 1, 2}, {1, 0, 1, 0, 0, 1}}));
  EXPECT_EQ(tiles.by_key, (TileList{{0, 3, 6, 6}, {1, 3, 0}, {2, 0, 1, 0, 1, 2}}));
}

void take_for_partial(TileList& list, size_t row) {
  ++list.partial[row];
  std::sort(list.indices.begin() + list.offsets[row], list.indices.begin() + list.offsets[row] + list.partial[row]);
}

TEST(Tiles, MutantsAreRefused) {
  const TileCase test = {parse_pattern("causal & (window(100) | global(9))"), 400, 400, {64, 32}};
  const ExactTiles exact = exact_tiles(test);
  const Tiles tiles = tiles_of(test);
  ASSERT_EQ(tile_fault(test, exact, tiles), "");
  int mutants = 0;
  const auto refuse = [&](const char* what, const std::function<void(Tiles&)>& mutate) {
    Tiles mutant = tiles;
    mutate(mutant);
    EXPECT_NE(tile_fault(test, exact, mutant), "") << what;
    ++mutants;
  };
  for (TileList Tiles::*which : {&Tiles::by_query, &Tiles::by_key}) {
    const TileList& list = tiles.*which;
    for (size_t row = 0; row < list.partial.size(); ++row) {
      for (int32_t i = list.offsets[row]; i < list.offsets[row + 1]; ++i) {
        refuse("a tile dropped", [&](Tiles& mutant) { drop(mutant.*which, row, i); });
        refuse("another tile", [&](Tiles& mutant) { ++(mutant.*which).indices[static_cast<size_t>(i)]; });
      }
      if (list.partial[row] > 0) {
        refuse("a partial tile for a full one", [&](Tiles& mutant) { take_for_full(mutant.*which, row); });
      }
      if (list.offsets[row] + list.partial[row] < list.offsets[row + 1]) {
        refuse("a full tile for a partial one", [&](Tiles& mutant) { take_for_partial(mutant.*which, row); });
      }
    }
    refuse("no rows", [&](Tiles& mutant) { mutant.*which = {}; });
    refuse("a row less", [&](Tiles& mutant) { (mutant.*which).partial.pop_back(); });
    refuse("order", [&](Tiles& mutant) { std::swap((mutant.*which).indices[0], (mutant.*which).indices[1]); });
  }
  refuse("the lists exchanged", [](Tiles& mutant) { std::swap(mutant.by_query, mutant.by_key); });
  for (int64_t Tiles::*number :
       {&Tiles::pairs, &Tiles::visible_pairs, &Tiles::tiles, &Tiles::partial_tiles, &Tiles::full_tiles}) {
    refuse("a number", [&](Tiles& mutant) { ++(mutant.*number); });
  }
  EXPECT_GT(mutants, 100);
}

TEST(Tiles, ExactNumbersOfPairsAtFullSize) {
  constexpr int64_t kLength = 131072, kWindow = 256, kGlobal = 16;
  const auto pairs = [](const char* text) {
    return compile_tiles(parse_pattern(text), kLength, kLength, {64, 64}).visible_pairs;
  };
  EXPECT_EQ(pairs("causal"), kLength * (kLength + 1) / 2);
  // A row has its window and the first positions before that.
  int64_t expected = 0;
  for (int64_t query = 0; query < kLength; ++query) {
    const int64_t window = std::min(query + 1, kWindow), before = query + 1 - window;
    expected += window + (query < kGlobal ? before : std::min(before, kGlobal));
  }
  EXPECT_EQ(pairs("causal & (window(256) | global(16))"), expected);
  int64_t dilated = 0;
  for (int64_t i = -255; i <= 255; ++i) dilated += kLength - 4 * std::abs(i);
  EXPECT_EQ(pairs("dilated(256, 4)"), dilated);
}

TEST(Tiles, PairsOfARowThatIsOneDocument) {
  EXPECT_EQ(count_pairs(parse_pattern("causal & documents"), 100), 5050);
  EXPECT_EQ(count_pairs(parse_pattern("documents"), 100, 3), 16 * 16 + 34 * 34 + 50 * 50);
  EXPECT_EQ(count_pairs(parse_pattern("full"), 100000), 10000000000);
  EXPECT_EQ(count_pairs(parse_pattern("causal"), 0), 0);
  EXPECT_EQ(count_pairs(parse_pattern("causal"), Rectangle{60, 100, 0, 100}), 5050 - 1830);
}

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// It takes 4 ms. Testing all pairs would take minutes, and testing all tiles a second.
TEST(Tiles, LongRowsAreCompiledWithoutALoopOverPairs) {
  const double start = processor_seconds();
  compile_tiles(parse_pattern("causal & (window(256) | global(16))"), 131072, 131072, {64, 64});
  EXPECT_LT(processor_seconds() - start, 0.5);
}

std::string refusal(ExitCode code, const std::function<void()>& call) {
  try {
    call();
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
}

TEST(Tiles, Refusals) {
  const Pattern documents = parse_pattern("causal & documents");
  const std::vector<int32_t> descending = {0, 0, 3, 2, 2}, short_row = {0, 1};
  EXPECT_EQ(refusal(ExitCode::data, [&] { compile_tiles(documents, 5, 5, {}, descending); }),
            "attention pattern: the document of position 3 is 2, expected at least 3, as at the position before it");
  EXPECT_EQ(refusal(ExitCode::data, [&] { compile_tiles(documents, 2, 5, {}, short_row); }),
            "attention pattern: there are documents for 2 positions, expected 5");
  // A pattern without documents does not read them.
  EXPECT_EQ(compile_tiles(parse_pattern("causal"), 5, 5, {}, descending).visible_pairs, 15);
  EXPECT_EQ(refusal(ExitCode::configuration, [&] { compile_tiles(documents, 0, 5, {}); }),
            "attention pattern: 0 queries, 5 keys and tiles of 64 x 64, expected at least 1 of each");
  EXPECT_EQ(
      refusal(ExitCode::configuration,
              [&] {
                compile_tiles(documents, 1 << 22, 1 << 22, {64, 64});
              }),
      "attention pattern: 4194304 queries and 4194304 keys have 65536 x 65536 tiles, expected at most 2147483647; "
      "take larger tiles");
  Pattern many;
  for (int i = 1; i < 17; ++i) many = many | Pattern{};
  EXPECT_EQ(refusal(ExitCode::configuration, [&] { compile_tiles(many, 5, 5, {}); }),
            "attention pattern: it has 17 words, expected at most 16");
}

}  // namespace
}  // namespace strata::kernels
