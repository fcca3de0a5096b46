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
};

TEST(Formula, Attention) {
  const int64_t batch = 2, positions = 5, heads = 4, key_value_heads = 2, width = 3;
  const int64_t all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(batch * positions * all_heads * width);
  const auto at = [&](int64_t place, int64_t head, int64_t k) { return qkv[(place * all_heads + head) * width + k]; };
  for (const PlainMask& mask :
       {PlainMask{"full", {}}, PlainMask{"causal", {}}, PlainMask{"causal & window(2)", {}}, PlainMask{"window(2)", {}},
        PlainMask{"dilated(2, 3)", {}}, PlainMask{"causal | prefix(3)", {}},
        PlainMask{"causal & (global(1) | window(2))", {}}, PlainMask{"blocks(0, 3) & causal", {}},
        PlainMask{"documents", {0, 2, 5, 5, 9, 10}}, PlainMask{"causal & window(2) & documents", {0, 5, 8, 10}},
        PlainMask{"documents & window(2) | global(1)", {0, 5, 8, 10}}}) {
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
        double total = 0;
        for (int64_t u = 0; u < batch * positions; ++u) {
          const int64_t row = t / positions, first = row * positions;
          const std::span documents(document_of.data() + first, static_cast<size_t>(positions));
          if (u / positions != row || !sees(pattern, t - first, u - first, documents)) continue;
          double score = 0;
          for (int64_t k = 0; k < width; ++k) score += at(t, head, k) * at(u, key, k);
          weights[u] = std::exp(score / std::sqrt(static_cast<double>(width)));
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
    expect_equal(
        attention(tensor(qkv, {batch, positions, all_heads * width}), heads, key_value_heads, given, kFormulaLevel),
        expected);
  }
}

}  // namespace
}  // namespace strata::kernels
