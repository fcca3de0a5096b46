// SPDX-License-Identifier: MIT
#include "tests/kernels/attention/attention_by_loops.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/pattern/visible.h"

namespace strata::kernels {
namespace {

double dot(const double* a, const double* b, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* to, double factor, const double* from, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] += factor * from[i];
}

// The heads of packed rows [B, T, columns], which begin at a column.
template <class Number>
struct Heads {
  Number* numbers;
  int64_t positions, columns, first_column, width;

  Number* at(int64_t row, int64_t position, int64_t head) const {
    return numbers + (row * positions + position) * columns + first_column + head * width;
  }
};

// Queries, keys and values of the leaves, or their gradients.
template <class Number>
struct Inputs {
  Inputs(const AttentionShape& s, const std::vector<Tensor>& leaves) {
    const bool is_part = s.queries > 0;
    const Tensor &query_leaf = leaves[0], &key_leaf = leaves[is_part ? 1 : 0];
    const int64_t first = is_part ? 0 : s.heads * s.head_width, width = s.head_width;
    queries = {query_leaf.mutable_data_ptr<double>(), query_leaf.size(1), query_leaf.size(2), 0, width};
    keys = {key_leaf.mutable_data_ptr<double>(), key_leaf.size(1), key_leaf.size(2), first, width};
    values = keys;
    values.first_column += s.key_value_heads * width;
    if (s.terms.sinks) sinks = leaves.back().mutable_data_ptr<double>();
  }

  Heads<Number> queries, keys, values;
  Number* sinks = nullptr;
};

}  // namespace

VisiblePairs visible_pairs(const RandomAttention& call) {
  const AttentionShape& s = call.shape;
  VisiblePairs visible;
  for (int64_t row = 0; row < s.batch; ++row) {
    for (int64_t query = 0; query < s.query_count(); ++query) {
      for (int64_t key = 0; key < s.positions; ++key) {
        const auto& documents = call.documents.row_ids[static_cast<size_t>(row)];
        visible.by_query.push_back(sees(s.pattern, s.first_query + query, key, documents) ? 1 : 0);
      }
    }
  }
  visible.by_key = visible.by_query;
  return visible;
}

std::vector<Tensor> attention_by_loops(const RandomAttention& call, const std::vector<Tensor>& leaves,
                                       const Tensor& grad_y, const VisiblePairs& visible) {
  const AttentionShape& s = call.shape;
  const int64_t width = s.head_width, group = s.heads / s.key_value_heads;
  const Tensor y = at::zeros(grad_y.sizes(), at::kDouble);
  std::vector<Tensor> results = {y};
  for (const Tensor& leaf : leaves) results.push_back(at::zeros_like(leaf));
  const Inputs<const double> in(s, leaves);
  const Inputs<double> gradient(s, {results.begin() + 1, results.end()});
  const Heads<double> y_heads = {y.mutable_data_ptr<double>(), y.size(1), y.size(2), 0, width};
  const Heads<const double> grad_y_heads = {grad_y.const_data_ptr<double>(), y.size(1), y.size(2), 0, width};
  const std::vector<double> slopes = alibi_slopes(s.heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width)), cap = s.terms.softcap;
  const auto keys = static_cast<size_t>(s.positions);
  std::vector<double> scores(keys), slope_of_cap(keys);  // and the derivative of each softcap
  for (int64_t row = 0; row < s.batch; ++row) {
    for (int64_t query = 0; query < s.query_count(); ++query) {
      const auto first_pair = static_cast<size_t>(row * s.query_count() + query) * keys;
      for (int64_t head = 0; head < s.heads; ++head) {
        const int64_t shared = head / group;
        const double* q = in.queries.at(row, query, head);
        const double sink = s.terms.sinks ? in.sinks[head] : -std::numeric_limits<double>::infinity();
        double most = sink;
        for (size_t key = 0; key < keys; ++key) {
          const auto place = static_cast<int64_t>(key);
          scores[key] = scale * dot(q, in.keys.at(row, place, shared), width);
          const double share = cap > 0 ? std::tanh(scores[key] / cap) : 0;
          if (cap > 0) scores[key] = cap * share;
          slope_of_cap[key] = 1 - share * share;
          const auto distance = static_cast<double>(std::abs(s.first_query + query - place));
          if (s.terms.alibi) scores[key] -= slopes[static_cast<size_t>(head)] * distance;
          if (visible.by_query[first_pair + key]) most = std::max(most, scores[key]);
        }
        double total = std::exp(sink - most);
        for (size_t key = 0; key < keys; ++key) {
          if (visible.by_query[first_pair + key]) total += std::exp(scores[key] - most);
        }
        const double logsumexp = most + std::log(total);
        const double* grad = grad_y_heads.at(row, query, head);
        double* result = y_heads.at(row, query, head);
        for (size_t key = 0; key < keys; ++key) {
          if (!visible.by_query[first_pair + key]) continue;
          add_scaled(result, std::exp(scores[key] - logsumexp), in.values.at(row, static_cast<int64_t>(key), shared),
                     width);
        }
        const double delta = dot(grad, result, width);
        if (s.terms.sinks) gradient.sinks[head] -= std::exp(sink - logsumexp) * delta;
        for (size_t key = 0; key < keys; ++key) {
          const bool by_query = visible.by_query[first_pair + key] != 0, by_key = visible.by_key[first_pair + key] != 0;
          if (!by_query && !by_key) continue;
          const auto place = static_cast<int64_t>(key);
          const double p = std::exp(scores[key] - logsumexp);
          const double score_gradient =
              p * (dot(grad, in.values.at(row, place, shared), width) - delta) * slope_of_cap[key] * scale;
          if (by_query) {
            add_scaled(gradient.queries.at(row, query, head), score_gradient, in.keys.at(row, place, shared), width);
          }
          if (by_key) {
            add_scaled(gradient.keys.at(row, place, shared), score_gradient, q, width);
            add_scaled(gradient.values.at(row, place, shared), p, grad, width);
          }
        }
      }
    }
  }
  return results;
}

}  // namespace strata::kernels
