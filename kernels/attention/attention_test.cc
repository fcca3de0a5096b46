// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
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
  std::vector<int32_t> document_offsets;  // offsets in flattened rows; empty: the pattern has no documents
  ScoreTerms terms = {};
};

constexpr int64_t kBatch = 2, kPositions = 5, kHeads = 4, kKeyValueHeads = 2, kWidth = 3;
constexpr int64_t kAllHeads = kHeads + 2 * kKeyValueHeads;

// Returns the number of the document of each position of flattened rows.
std::vector<int32_t> documents_of(const PlainMask& mask) {
  std::vector<int32_t> document_of(kBatch * kPositions);
  for (int32_t place = 0; place < kBatch * kPositions; ++place) {
    for (const int32_t offset : mask.document_offsets) document_of[place] += offset <= place;
  }
  return document_of;
}

// The exponentials of the scores of one query of a head, with flattened rows [kBatch * kPositions].
Plain plain_weights(const Plain& qkv, const PlainMask& mask, int64_t t, int64_t head) {
  const Pattern pattern = parse_pattern(mask.pattern);
  const std::vector<int32_t> document_of = documents_of(mask);
  const int64_t key = kHeads + head / (kHeads / kKeyValueHeads), row = t / kPositions, first = row * kPositions;
  const std::span documents(document_of.data() + first, static_cast<size_t>(kPositions));
  const auto at = [&](int64_t place, int64_t head, int64_t k) { return qkv[(place * kAllHeads + head) * kWidth + k]; };
  Plain weights(kBatch * kPositions);
  for (int64_t u = first; u < first + kPositions; ++u) {
    if (!sees(pattern, t - first, u - first, documents)) continue;
    double score = 0;
    for (int64_t k = 0; k < kWidth; ++k) score += at(t, head, k) * at(u, key, k);
    score /= std::sqrt(static_cast<double>(kWidth));
    if (mask.terms.softcap != 0) score = mask.terms.softcap * std::tanh(score / mask.terms.softcap);
    // The slopes of 4 heads are 1/4, 1/16, 1/64 and 1/256.
    if (mask.terms.alibi) score -= std::pow(4.0, -double(head + 1)) * std::abs(double(t - u));
    weights[u] = std::exp(score);
  }
  return weights;
}

// Attention by loops: y [kBatch, kPositions, kHeads * kWidth] of qkv [kBatch, kPositions, kAllHeads * kWidth].
Plain plain_attention(const Plain& qkv, const Plain& sinks, const PlainMask& mask) {
  Plain y(kBatch * kPositions * kHeads * kWidth);
  for (int64_t t = 0; t < kBatch * kPositions; ++t) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t value = kHeads + kKeyValueHeads + head / (kHeads / kKeyValueHeads);
      const Plain weights = plain_weights(qkv, mask, t, head);
      const double total =
          std::accumulate(weights.begin(), weights.end(), mask.terms.sinks ? std::exp(sinks[head]) : 0.0);
      for (int64_t u = 0; u < kBatch * kPositions; ++u) {
        for (int64_t k = 0; k < kWidth; ++k) {
          y[(t * kHeads + head) * kWidth + k] += weights[u] / total * qkv[(u * kAllHeads + value) * kWidth + k];
        }
      }
    }
  }
  return y;
}

// Returns rows 1 to 3 of each sample of y.
Plain middle_rows(const Plain& y) {
  Plain rows;
  for (int64_t row = 0; row < kBatch; ++row) {
    const auto begin = y.begin() + (row * kPositions + 1) * kHeads * kWidth;
    rows.insert(rows.end(), begin, begin + 3 * kHeads * kWidth);
  }
  return rows;
}

AttentionMask given_mask(const PlainMask& mask) {
  AttentionMask given = {parse_pattern(mask.pattern), {}};
  if (!mask.document_offsets.empty()) {
    const Plain offsets(mask.document_offsets.begin(), mask.document_offsets.end());
    given.document_offsets = tensor(offsets, {static_cast<int64_t>(offsets.size())}).to(at::kInt);
  }
  return given;
}

TEST(Formula, Attention) {
  const Plain qkv = ramp(kBatch * kPositions * kAllHeads * kWidth), sinks = ramp(kHeads, /*start=*/0.9);
  const Tensor packed = tensor(qkv, {kBatch, kPositions, kAllHeads * kWidth});
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
    const Plain expected = plain_attention(qkv, sinks, mask);
    const AttentionMask given = given_mask(mask);
    const AttentionTerms terms = {mask.terms.alibi, mask.terms.softcap,
                                  mask.terms.sinks ? tensor(sinks, {kHeads}) : Tensor()};
    expect_equal(attention(packed, kHeads, kKeyValueHeads, given, terms, kFormulaLevel), expected);

    // The queries from the second to the fourth, which see all keys of their rows.
    const Tensor query = packed.narrow(2, 0, kHeads * kWidth).narrow(1, 1, 3);
    const Tensor key_value = packed.narrow(2, kHeads * kWidth, 2 * kKeyValueHeads * kWidth);
    const Tensor middle =
        attention_of_part(query, {key_value, /*first_query=*/1}, kHeads, kKeyValueHeads, given, terms, kFormulaLevel);
    expect_equal(middle, middle_rows(expected));
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
