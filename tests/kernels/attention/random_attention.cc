// SPDX-License-Identifier: MIT
#include "tests/kernels/attention/random_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/attention/attention_proof.h"
#include "kernels/attention/pattern/blind_query.h"
#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

constexpr double kMostProducts = 6e6;  // products of a query and a key, over all pairs and elements of heads

template <class Values>
const auto& one_of(Draws& draws, const Values& values) {
  return values[static_cast<size_t>(draws.below(static_cast<int64_t>(std::size(values))))];
}

// Level cuda takes these alone with heads of other widths than 64 and 128, and hardly any expression of random words is
// one of them.
Pattern band_or_prefix(Draws& draws, int64_t positions) {
  const std::string n = std::to_string(1 + draws.below(positions + 2));
  const std::array<std::string, 5> texts = {"full", "causal", "window(" + n + ")", "causal & window(" + n + ")",
                                            "causal | prefix(" + n + ")"};
  Pattern pattern = parse_pattern(one_of(draws, texts));
  const bool takes_documents = pattern.kind != Pattern::Kind::either;
  return takes_documents && draws.below(3) == 0 ? within_documents(std::move(pattern)) : pattern;
}

Pattern random_expression(Draws& draws, int64_t positions) {
  if (draws.below(3) == 0) return band_or_prefix(draws, positions);
  return random_pattern(draws, 1 + draws.below(draws.below(8) == 0 ? kMostWords : 4), positions);
}

ScoreTerms random_terms(Draws& draws) {
  if (draws.below(2) == 0) return {};
  static constexpr std::array<double, 4> kSoftcaps = {0, 0, 2, 30};
  return {.alibi = draws.below(4) == 0, .softcap = one_of(draws, kSoftcaps), .sinks = draws.below(3) == 0};
}

// Heads that packages of level aot_inductor exist for: tests/kernels/attention/proof_calls.py. Or any others.
void draw_heads(Draws& draws, AttentionShape& shape) {
  static constexpr std::array<int64_t, 10> kWidths = {8, 10, 16, 24, 32, 64, 96, 128, 192, 256};
  const bool has_package = draws.below(2) == 0, has_documents = has_word(shape.pattern, Pattern::Kind::documents);
  const int64_t group = has_package ? (has_documents ? 3 : 2) : 1 + draws.below(4);
  shape.key_value_heads = 1 + draws.below(3);
  shape.heads = group * shape.key_value_heads;
  shape.head_width = has_package ? 64 : one_of(draws, kWidths);
}

}  // namespace

RandomAttention random_attention(Draws& draws, int64_t most_positions) {
  static constexpr std::array<int64_t, 7> kAtTiles = {1, 31, 32, 33, 63, 64, 65};
  AttentionShape shape = {
      .batch = 1 + draws.below(2), .positions = 0, .heads = 0, .key_value_heads = 0, .head_width = 0};
  const int64_t drawn = draws.below(4) == 0 ? one_of(draws, kAtTiles) : 1 + draws.below(most_positions);
  shape.pattern = random_expression(draws, drawn);
  draw_heads(draws, shape);
  const double pair_products = static_cast<double>(shape.batch * shape.heads * shape.head_width);
  shape.positions = std::min(drawn, static_cast<int64_t>(std::sqrt(kMostProducts / pair_products)));
  shape.terms = random_terms(draws);
  if (find_blind_query(shape.pattern, shape.positions)) shape.terms.sinks = true;
  if (draws.below(5) == 0) {
    shape.queries = 1 + draws.below(shape.positions);
    shape.first_query = draws.below(shape.positions - shape.queries + 1);
  }
  Documents documents = random_rows(draws, shape.batch, shape.positions);
  const bool has_documents = has_word(shape.pattern, Pattern::Kind::documents);
  OpCase op_case = attention_case("attention", shape, has_documents ? documents.offsets : Tensor());
  return {shape, std::move(documents), std::move(op_case)};
}

}  // namespace strata::kernels
