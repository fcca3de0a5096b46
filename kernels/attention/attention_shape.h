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
  int64_t batch, positions, heads, key_value_heads, head_width;
  Pattern pattern = {.kind = Pattern::Kind::causal};
  bool deterministic = false;  // with at::globalContext().deterministicAlgorithms()
  ScoreTerms terms = {};
  int64_t documents = 1;  // of each row, if the pattern has them; they grow evenly

  bool operator==(const AttentionShape&) const = default;
  std::string_view op() const { return "attention"; }
  std::string text() const {
    return heads_text(batch, positions, heads, key_value_heads, head_width) + ", " + to_text(pattern) +
           (documents > 1 ? ", " + std::to_string(documents) + " documents" : "") +
           (terms.any() ? ", " + to_text(terms) : "") + (deterministic ? ", deterministic" : "");
  }
  Work forward_work(double element_bytes) const { return {(qkv() + y()) * element_bytes + statistics(), flops()}; }
  // The backward has five products of this size, the forward two.
  Work backward_work(double element_bytes) const {
    return {(2 * qkv() + 2 * y()) * element_bytes + statistics(), 2.5 * flops()};
  }

 private:
  int64_t rows() const { return batch * positions; }
  double qkv() const { return double(rows() * head_width * (heads + 2 * key_value_heads)); }
  double y() const { return double(rows() * head_width * heads); }
  double statistics() const { return double(rows() * heads) * kStatisticBytes; }
  // The FLOPs of the visible pairs.
  double flops() const {
    return 4 * double(batch * count_pairs(pattern, positions, documents)) * double(heads * head_width);
  }
};

}  // namespace strata::kernels
