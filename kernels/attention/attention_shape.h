// SPDX-License-Identifier: MIT
// AttentionShape: the sizes of attention.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct AttentionShape {
  int64_t batch, positions, heads, key_value_heads, head_width;  // positions: of the keys of a row
  Pattern pattern = {.kind = Pattern::Kind::causal};
  bool deterministic = false;  // with at::globalContext().deterministicAlgorithms()
  ScoreTerms terms = {};
  int64_t documents = 1;  // documents per row, if the pattern has them; their lengths grow evenly
  int64_t queries = 0;    // queries per row, from the position first_query on; 0: all positions
  int64_t first_query = 0;

  bool operator==(const AttentionShape&) const = default;
  std::string_view op() const { return "attention"; }
  std::string text() const {
    return heads_text(batch, positions, heads, key_value_heads, head_width) + ", " + to_text(pattern) +
           (queries > 0 ? ", queries " + std::to_string(first_query) + " to " + std::to_string(end_query() - 1) : "") +
           (documents > 1 ? ", " + std::to_string(documents) + " documents" : "") +
           (terms.any() ? ", " + to_text(terms) : "") + (deterministic ? ", deterministic" : "");
  }
  int64_t query_count() const { return queries > 0 ? queries : positions; }
  Work forward_work(double element_bytes) const { return {(qkv() + y()) * element_bytes + statistics(), flops()}; }
  // The backward has five products of this size, the forward two.
  Work backward_work(double element_bytes) const {
    return {(2 * qkv() + 2 * y()) * element_bytes + statistics(), 2.5 * flops()};
  }

 private:
  int64_t end_query() const { return first_query + query_count(); }
  double qkv() const { return y() + double(batch * positions * head_width * 2 * key_value_heads); }
  double y() const { return double(batch * query_count() * head_width * heads); }
  double statistics() const { return double(batch * query_count() * heads) * kStatisticBytes; }
  // The FLOPs of the visible pairs.
  double flops() const {
    const Rectangle pairs = {first_query, end_query(), 0, positions};
    return 4 * double(batch * count_pairs(pattern, pairs, documents)) * double(heads * head_width);
  }
};

}  // namespace strata::kernels
