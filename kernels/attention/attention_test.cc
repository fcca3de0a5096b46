// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/visible.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

struct PlainMask {
  std::string pattern;
  std::vector<int32_t> document_offsets;  // of flattened rows; empty: the pattern has no documents
  ScoreTerms terms = {};
};

TEST(Formula, Attention) {
  const int64_t batch = 2, positions = 5, heads = 4, key_value_heads = 2, width = 3;
  const int64_t all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(batch * positions * all_heads * width);
  const Plain sinks = ramp(heads, /*start=*/0.9);
  const auto at = [&](int64_t place, int64_t head, int64_t k) { return qkv[(place * all_heads + head) * width + k]; };
  for (const PlainMask& mask :
       {PlainMask{"full", {}}, PlainMask{"causal", {}}, PlainMask{"causal & window(2)", {}}, PlainMask{"window(2)", {}},
        PlainMask{"dilated(2, 3)", {}}, PlainMask{"causal | prefix(3)", {}},
        PlainMask{"causal & (global(1) | window(2))", {}}, PlainMask{"blocks(0, 3) & causal", {}},
        PlainMask{"documents", {0, 2, 5, 5, 9, 10}}, PlainMask{"causal & window(2) & documents", {0, 5, 8, 10}},
        PlainMask{"documents & window(2) | global(1)", {0, 5, 8, 10}}, PlainMask{"full", {}, {.alibi = true}},
        PlainMask{"causal", {}, {.softcap = 0.5}}, PlainMask{"causal", {}, {.sinks = true}},
        PlainMask{"documents & window(2)", {0, 2, 5, 10}, {.alibi = true, .softcap = 0.5, .sinks = true}},
        // The queries at 3 and 4 see only the sink.
        PlainMask{"prefix(2) & window(2)", {}, {.sinks = true}}}) {
    const Pattern pattern = parse_pattern(mask.pattern);
    std::vector<int32_t> document_of(batch * positions);
    for (int32_t place = 0; place < batch * positions; ++place) {
      for (const int32_t offset : mask.document_offsets) document_of[place] += offset <= place;
    }
    Plain expected(batch * positions * heads * width);
    for (int64_t t = 0; t < batch * positions; ++t) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t key = heads + head / (heads / key_value_heads), value = key + key_value_heads;
        Plain weights(batch * positions);
        double total = mask.terms.sinks ? std::exp(sinks[head]) : 0.0;
        for (int64_t u = 0; u < batch * positions; ++u) {
          const int64_t row = t / positions, first = row * positions;
          const std::span documents(document_of.data() + first, static_cast<size_t>(positions));
          if (u / positions != row || !sees(pattern, t - first, u - first, documents)) continue;
          double score = 0;
          for (int64_t k = 0; k < width; ++k) score += at(t, head, k) * at(u, key, k);
          score /= std::sqrt(static_cast<double>(width));
          if (mask.terms.softcap != 0) score = mask.terms.softcap * std::tanh(score / mask.terms.softcap);
          // The slopes of 4 heads are 1/4, 1/16, 1/64 and 1/256.
          if (mask.terms.alibi) score -= std::pow(4.0, -double(head + 1)) * std::abs(double(t - u));
          weights[u] = std::exp(score);
          total += weights[u];
        }
        for (int64_t u = 0; u < batch * positions; ++u) {
          for (int64_t k = 0; k < width; ++k) {
            expected[(t * heads + head) * width + k] += weights[u] / total * at(u, value, k);
          }
        }
      }
    }
    AttentionMask given = {pattern, {}};
    if (!mask.document_offsets.empty()) {
      const Plain offsets(mask.document_offsets.begin(), mask.document_offsets.end());
      given.document_offsets = tensor(offsets, {static_cast<int64_t>(offsets.size())}).to(at::kInt);
    }
    const AttentionTerms terms = {mask.terms.alibi, mask.terms.softcap,
                                  mask.terms.sinks ? tensor(sinks, {heads}) : Tensor()};
    const Tensor packed = tensor(qkv, {batch, positions, all_heads * width});
    expect_equal(attention(packed, heads, key_value_heads, given, terms, kFormulaLevel), expected);

    // The queries from the second to the fourth, which see all keys of their rows.
    const Tensor query = packed.narrow(2, 0, heads * width).narrow(1, 1, 3);
    const Tensor key_value = packed.narrow(2, heads * width, 2 * key_value_heads * width);
    const Tensor of_part =
        attention_of_part(query, {key_value, /*first_query=*/1}, heads, key_value_heads, given, terms, kFormulaLevel);
    Plain rows;
    for (int64_t row = 0; row < batch; ++row) {
      const auto begin = expected.begin() + (row * positions + 1) * heads * width;
      rows.insert(rows.end(), begin, begin + 3 * heads * width);
    }
    expect_equal(of_part, rows);
  }
}

// The slopes of 8 and 12 heads in the code of the paper.
TEST(AlibiSlopes, AreThoseOfThePaper) {
  const std::vector<double> of_8 = {1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256};
  EXPECT_EQ(alibi_slopes(8), of_8);
  const std::vector<double> of_12 = alibi_slopes(12);
  ASSERT_EQ(of_12.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_DOUBLE_EQ(of_12[i], i < 8 ? of_8[i] : std::sqrt(0.5) * std::pow(0.5, double(i - 8))) << i;
  }
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{1. / 256});
  EXPECT_EQ(alibi_slopes(3), (std::vector<double>{1. / 16, 1. / 256, 1. / 4}));
}

TEST(ScoreTerms, HaveAText) {
  EXPECT_EQ(to_text(ScoreTerms{}), "");
  EXPECT_EQ(to_text(ScoreTerms{.softcap = 0.1}), "softcap 0.1");
  EXPECT_EQ(to_text(ScoreTerms{.alibi = true, .softcap = 50, .sinks = true}), "alibi, softcap 50, sinks");
}

}  // namespace
}  // namespace strata::kernels
