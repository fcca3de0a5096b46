// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

struct PlainMask {
  bool causal;
  int64_t window;
  std::vector<int32_t> document_offsets;  // empty: each row is a document
};

TEST(Formula, Attention) {
  const int64_t batch = 2, positions = 5, heads = 4, key_value_heads = 2, width = 3;
  const int64_t all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(batch * positions * all_heads * width);
  const auto at = [&](int64_t place, int64_t head, int64_t k) { return qkv[(place * all_heads + head) * width + k]; };
  for (const PlainMask& mask : {PlainMask{false, 0, {}}, PlainMask{true, 0, {}}, PlainMask{true, 2, {}},
                                PlainMask{false, 0, {0, 2, 5, 5, 9, 10}}, PlainMask{true, 2, {0, 5, 8, 10}}}) {
    const auto document = [&](int64_t place) {
      if (mask.document_offsets.empty()) return place / positions;
      int64_t ended = 0;
      for (const int32_t offset : mask.document_offsets) ended += offset <= place;
      return ended;
    };
    Plain expected(batch * positions * heads * width);
    for (int64_t t = 0; t < batch * positions; ++t) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t key = heads + head / (heads / key_value_heads), value = key + key_value_heads;
        Plain weights(batch * positions);
        double total = 0;
        for (int64_t u = 0; u < batch * positions; ++u) {
          if (document(t) != document(u) || (mask.causal && u > t) || (mask.window > 0 && u + mask.window <= t))
            continue;
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
    AttentionMask given = {mask.causal, mask.window, {}};
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
