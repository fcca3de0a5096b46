// SPDX-License-Identifier: MIT
// Level aten of neighbor_attention on CPUs.
// T is the type of elements, A the type of sums, fp32 or wider.
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

#include "kernels/neighbor_aggregate/neighbor_aggregate_aten.h"
#include "kernels/neighbor_aggregate/neighbor_loops.h"

namespace strata::kernels {
namespace {

template <class A>
A leaky(A score, A slope) {
  return score > 0 ? score : slope * score;
}

}  // namespace

NeighborAttentionOp::Output attend_by_loops(const Tensor& x_SHF, const Tensor& score_source_SH,
                                            const Tensor& score_target_TH, const NeighborGraph& graph,
                                            double negative_slope) {
  const Tensor x = x_SHF.contiguous();
  const int64_t heads = x.size(1), width = x.size(2);
  const at::ScalarType sum_dtype = sum_type(x.scalar_type());
  const Weights source_scores(score_source_SH, sum_dtype), target_scores(score_target_TH, sum_dtype);
  const Tensor y = at::empty({graph.targets, heads, width}, x.options());
  const Tensor logsumexp = at::empty({graph.targets, heads}, x.options().dtype(sum_dtype));
  const Rows rows(graph.by_target);
  visit_type(x.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const A slope = static_cast<A>(negative_slope);
    const A *source_score = source_scores.data<A>(), *target_score = target_scores.data<A>();
    const T* values = x.const_data_ptr<T>();
    T* results = y.mutable_data_ptr<T>();
    A* log_sums = logsumexp.mutable_data_ptr<A>();
    for_each_row(rows, heads * width, [&](int64_t first, int64_t last) {
      std::vector<A> scores;
      FoldedSum<A> sum(width);
      for (int64_t row = first; row < last; ++row) {
        const int64_t begin = rows.offsets[row], degree = rows.offsets[row + 1] - begin;
        scores.resize(degree);
        for (int64_t h = 0; h < heads; ++h) {
          A maximum = -std::numeric_limits<A>::infinity();
          double total = 0;
          for (int64_t i = 0; i < degree; ++i) {
            const int64_t source = rows.neighbors[begin + i];
            scores[i] = leaky(source_score[source * heads + h] + target_score[row * heads + h], slope);
            maximum = std::max(maximum, scores[i]);
          }
          sum.clear();
          for (int64_t i = 0; i < degree; ++i) {
            const A exponential = std::exp(scores[i] - maximum);
            total += exponential;
            add_scaled(sum.next(), values + (rows.neighbors[begin + i] * heads + h) * width, exponential, width);
          }
          const A scale = degree == 0 ? A{0} : static_cast<A>(1 / total);
          const A* sums = sum.total();
          for (int64_t k = 0; k < width; ++k) {
            results[(row * heads + h) * width + k] = static_cast<T>(sums[k] * scale);
          }
          log_sums[row * heads + h] = static_cast<A>(maximum + std::log(total));
        }
      }
    });
  });
  return {y, logsumexp};
}

NeighborAttentionOp::Gradient attend_backward_by_loops(const Tensor& grad_y_THF, const Tensor& x_SHF,
                                                       const Tensor& score_source_SH, const Tensor& score_target_TH,
                                                       const NeighborGraph& graph, double negative_slope,
                                                       const Tensor& y_THF, const Tensor& logsumexp_TH) {
  const Tensor grad_y = grad_y_THF.contiguous(), x = x_SHF.contiguous();
  const int64_t heads = x.size(1), width = x.size(2);
  const at::ScalarType sum_dtype = sum_type(x.scalar_type());
  const auto sum_options = x.options().dtype(sum_dtype);
  const Weights source_scores(score_source_SH, sum_dtype), target_scores(score_target_TH, sum_dtype);
  const Rows by_target(graph.by_target), by_source(graph.by_source);
  const int32_t* edge_of = graph.edge_by_source.const_data_ptr<int32_t>();
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor grad_source = at::empty({graph.sources, heads}, sum_options);
  const Tensor grad_target = at::empty({graph.targets, heads}, sum_options);
  const Tensor grad_score = at::empty({graph.edges(), heads}, sum_options);  // before leaky_relu
  const Tensor delta = at::empty({graph.targets, heads}, sum_options);       // grad_y . y
  visit_type(x.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const A slope = static_cast<A>(negative_slope);
    const A *source_score = source_scores.data<A>(), *target_score = target_scores.data<A>();
    const A* log_sums = logsumexp_TH.const_data_ptr<A>();
    const T *grad = grad_y.const_data_ptr<T>(), *values = x.const_data_ptr<T>(), *results = y_THF.const_data_ptr<T>();
    T* grad_x_data = grad_x.mutable_data_ptr<T>();
    A *grad_source_data = grad_source.mutable_data_ptr<A>(), *grad_target_data = grad_target.mutable_data_ptr<A>();
    A *grad_score_data = grad_score.mutable_data_ptr<A>(), *deltas = delta.mutable_data_ptr<A>();
    for_each_row(by_target, heads * width, [&](int64_t first, int64_t last) {
      for (int64_t i = first * heads; i < last * heads; ++i) {
        deltas[i] = static_cast<A>(dot(grad + i * width, results + i * width, width));
      }
    });
    for_each_row(by_source, heads * width, [&](int64_t first, int64_t last) {
      FoldedSum<A> sum(heads * width);
      std::vector<double> source_sums(heads);
      for (int64_t source = first; source < last; ++source) {
        sum.clear();
        std::fill(source_sums.begin(), source_sums.end(), 0.0);
        for (int64_t place = by_source.offsets[source]; place < by_source.offsets[source + 1]; ++place) {
          A* into = sum.next();
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t from = source * heads + h, to = by_source.neighbors[place] * heads + h;
            const A score = source_score[from] + target_score[to];
            const A probability = std::exp(leaky(score, slope) - log_sums[to]);
            add_scaled(into + h * width, grad + to * width, probability, width);
            const A grad_probability = static_cast<A>(dot(grad + to * width, values + from * width, width));
            const A grad_of_edge = probability * (grad_probability - deltas[to]) * (score > 0 ? A{1} : slope);
            source_sums[h] += grad_of_edge;
            grad_score_data[edge_of[place] * heads + h] = grad_of_edge;
          }
        }
        const A* total = sum.total();
        for (int64_t k = 0; k < heads * width; ++k) grad_x_data[source * heads * width + k] = static_cast<T>(total[k]);
        for (int64_t h = 0; h < heads; ++h) grad_source_data[source * heads + h] = static_cast<A>(source_sums[h]);
      }
    });
    for_each_row(by_target, heads, [&](int64_t first, int64_t last) {
      for (int64_t target = first; target < last; ++target) {
        for (int64_t h = 0; h < heads; ++h) {
          double sum = 0;
          for (int64_t place = by_target.offsets[target]; place < by_target.offsets[target + 1]; ++place) {
            sum += grad_score_data[place * heads + h];
          }
          grad_target_data[target * heads + h] = static_cast<A>(sum);
        }
      }
    });
  });
  return {grad_x, grad_source.to(score_source_SH.scalar_type()), grad_target.to(score_target_TH.scalar_type())};
}

}  // namespace strata::kernels
