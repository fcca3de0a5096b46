// SPDX-License-Identifier: MIT
// Fuzzes expressions of attention patterns.
#include <array>
#include <vector>

#include "kernels/attention/pattern/blind_query.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/tiles.h"
#include "kernels/attention/pattern/visible.h"
#include "tests/fuzz/harness/read_again.h"

namespace strata::fuzz {
namespace {

using kernels::Pattern;

constexpr int32_t kPositions = 150;
constexpr std::array<int32_t, 8> kSome = {0, 1, 2, 63, 64, 100, 128, kPositions - 1};

void parse(std::string_view bytes) {
  const Pattern pattern = kernels::parse_pattern(bytes);
  const std::string text = kernels::to_text(pattern);
  require(read_again([&] { return kernels::parse_pattern(text); }) == pattern, "another pattern after it was written");

  std::vector<int32_t> document_of(kPositions);
  for (int32_t i = 0; i < kPositions; ++i) document_of[static_cast<size_t>(i)] = i / 40;
  const kernels::Program program = kernels::compile_program(pattern);
  for (const int32_t query : kSome) {
    for (const int32_t key : kSome) {
      const bool seen = kernels::sees(pattern, query, key, document_of);
      require(kernels::sees(program, query, key, query / 40, key / 40) == seen, "a program that sees another pair");
    }
  }
  const kernels::Tiles tiles = kernels::compile_tiles(pattern, kPositions, kPositions, {64, 48}, document_of);
  require(tiles.visible_pairs >= 0 && tiles.visible_pairs <= tiles.pairs, "an impossible number of pairs");
  const bool blind = kernels::find_blind_query(pattern, kPositions).has_value();
  require(blind || tiles.visible_pairs >= kPositions, "queries without a key");
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::configuration,
                        .file = "attention pattern",
                        .parse = parse,
                        .words = {"full", "causal", "window(", "dilated(", "prefix(", "global(", "blocks(0.5,",
                                  "documents", "&", "|", "(", ")", ",", "((((((((((((((((", "|full|full|full|full"}};

}  // namespace strata::fuzz
