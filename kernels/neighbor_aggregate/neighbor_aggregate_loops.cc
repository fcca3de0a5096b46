// SPDX-License-Identifier: MIT
// Level aten of neighbor_aggregate on CPUs.
// T is the type of elements, A the type of sums, fp32 or wider.
#include <ATen/ops/empty.h>

#include "kernels/neighbor_aggregate/neighbor_aggregate_aten.h"
#include "kernels/neighbor_aggregate/neighbor_loops.h"

namespace strata::kernels {
namespace {

// y[row] = scale_of(row) * the sum of factor_of(place, neighbor) * x[neighbor] over the row's edges.
template <class T, class FactorOf, class ScaleOf>
void sum_rows(const Rows& rows, const T* x, T* y, int64_t width, const FactorOf& factor_of, const ScaleOf& scale_of) {
  using A = Sum<T>;
  for_each_row(rows, width, [&](int64_t first, int64_t last) {
    FoldedSum<A> sum(width);
    for (int64_t row = first; row < last; ++row) {
      sum.clear();
      for (int64_t place = rows.offsets[row]; place < rows.offsets[row + 1]; ++place) {
        const int64_t neighbor = rows.neighbors[place];
        prefetch_neighbor(rows, place, x, width);
        add_scaled(sum.next(), x + neighbor * width, static_cast<A>(factor_of(place, neighbor)), width);
      }
      const A scale = static_cast<A>(scale_of(row));
      const A* total = sum.total();
      for (int64_t k = 0; k < width; ++k) y[row * width + k] = static_cast<T>(total[k] * scale);
    }
  });
}

template <class T>
void max_rows(const Rows& rows, const T* x, const Sum<T>* weight, T* y, int32_t* largest, int64_t width) {
  using A = Sum<T>;
  for_each_row(rows, width, [&](int64_t first, int64_t last) {
    std::vector<A> best(width);
    for (int64_t row = first; row < last; ++row) {
      int32_t* edge = largest + row * width;
      std::fill(edge, edge + width, -1);
      std::fill(best.begin(), best.end(), A{0});
      for (int64_t place = rows.offsets[row]; place < rows.offsets[row + 1]; ++place) {
        const T* message = x + rows.neighbors[place] * width;
        const A factor = weight == nullptr ? A{1} : weight[place];
        const bool is_first = place == rows.offsets[row];
        for (int64_t k = 0; k < width; ++k) {
          const A value = factor * static_cast<A>(message[k]);
          const bool is_larger = is_first || value > best[k] || value != value;  // a NaN is kept
          best[k] = is_larger ? value : best[k];
          edge[k] = is_larger ? static_cast<int32_t>(place) : edge[k];
        }
      }
      for (int64_t k = 0; k < width; ++k) y[row * width + k] = static_cast<T>(best[k]);
    }
  });
}

// grad_x[s] of max: the sum over the edges of s that were the maximum of their target.
template <class T>
void max_rows_backward(const Rows& by_source, const int32_t* edge_of, const T* grad_y, const int32_t* largest,
                       const Sum<T>* weight, T* grad_x, int64_t width) {
  using A = Sum<T>;
  for_each_row(by_source, width, [&](int64_t first, int64_t last) {
    FoldedSum<A> sum(width);
    for (int64_t row = first; row < last; ++row) {
      sum.clear();
      for (int64_t place = by_source.offsets[row]; place < by_source.offsets[row + 1]; ++place) {
        const int64_t target = by_source.neighbors[place];
        const int32_t edge = edge_of[place];
        const A factor = weight == nullptr ? A{1} : weight[edge];
        A* into = sum.next();
        for (int64_t k = 0; k < width; ++k) {
          const bool is_taken = largest[target * width + k] == edge;
          into[k] += is_taken ? factor * static_cast<A>(grad_y[target * width + k]) : A{0};
        }
      }
      const A* total = sum.total();
      for (int64_t k = 0; k < width; ++k) grad_x[row * width + k] = static_cast<T>(total[k]);
    }
  });
}

// Computes the gradients of the edge weights, in the order of by_target.
template <class T>
void weight_gradients(const Rows& by_target, const T* grad_y, const T* x, const int32_t* largest, bool is_mean,
                      Sum<T>* gradient, int64_t width) {
  for_each_row(by_target, width, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const T* grad_row = grad_y + row * width;
      const int64_t begin = by_target.offsets[row], end = by_target.offsets[row + 1];
      if (largest != nullptr) {
        std::fill(gradient + begin, gradient + end, Sum<T>{0});
        for (int64_t k = 0; begin < end && k < width; ++k) {
          const int64_t edge = largest[row * width + k];
          gradient[edge] +=
              static_cast<Sum<T>>(grad_row[k]) * static_cast<Sum<T>>(x[by_target.neighbors[edge] * width + k]);
        }
        continue;
      }
      const double scale = is_mean ? by_target.inverse_degree(row) : 1.0;
      for (int64_t place = begin; place < end; ++place) {
        gradient[place] = static_cast<Sum<T>>(scale * dot(grad_row, x + by_target.neighbors[place] * width, width));
      }
    }
  });
}

}  // namespace

NeighborAggregateOp::Output aggregate_by_loops(const Tensor& x_SF, const NeighborGraph& graph,
                                               const Tensor& edge_weight_E, Reduction reduction) {
  const Tensor x = x_SF.contiguous();
  const int64_t width = x.size(1);
  const Weights weights(edge_weight_E, sum_type(x.scalar_type()));
  const Tensor y = at::empty({graph.targets, width}, x.options());
  const Rows rows(graph.by_target);
  Tensor largest;
  visit_type(x.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const T* values = x.const_data_ptr<T>();
    T* results = y.mutable_data_ptr<T>();
    const A* weight = weights.data<A>();
    if (reduction == Reduction::max) {
      largest = at::empty({graph.targets, width}, x.options().dtype(at::kInt));
      max_rows(rows, values, weight, results, largest.mutable_data_ptr<int32_t>(), width);
      return;
    }
    const auto scale_of = [&](int64_t row) { return reduction == Reduction::mean ? rows.inverse_degree(row) : 1.0; };
    if (weight == nullptr) {
      sum_rows(
          rows, values, results, width, [](int64_t, int64_t) { return A{1}; }, scale_of);
    } else {
      sum_rows(
          rows, values, results, width, [&](int64_t place, int64_t) { return weight[place]; }, scale_of);
    }
  });
  return {y, largest};
}

NeighborAggregateOp::Gradient aggregate_backward_by_loops(const Tensor& grad_y_TF, const Tensor& x_SF,
                                                          const NeighborGraph& graph, const Tensor& edge_weight_E,
                                                          Reduction reduction, const Tensor& largest_TF,
                                                          const NeighborAggregateOp::Wanted& wanted,
                                                          const GradientDestination& into) {
  const Tensor grad_y = grad_y_TF.contiguous();
  const int64_t width = grad_y.size(1);
  const at::ScalarType wide = sum_type(grad_y.scalar_type());
  const Weights weights(edge_weight_E, wide);
  const Rows by_target(graph.by_target), by_source(graph.by_source);
  const int32_t* largest = largest_TF.defined() ? largest_TF.const_data_ptr<int32_t>() : nullptr;
  const int32_t* edge_of = graph.edge_by_source.const_data_ptr<int32_t>();
  NeighborAggregateOp::Gradient gradient;
  visit_type(grad_y.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const T* grad = grad_y.const_data_ptr<T>();
    const A* weight = weights.data<A>();
    if (wanted.x) {
      const Tensor grad_x = at::empty({graph.sources, width}, grad_y.options());
      T* results = grad_x.mutable_data_ptr<T>();
      if (largest != nullptr) {
        max_rows_backward(by_source, edge_of, grad, largest, weight, results, width);
      } else {
        const auto factor_of = [&](int64_t place, int64_t target) {
          const A factor = weight == nullptr ? A{1} : weight[edge_of[place]];
          return reduction == Reduction::mean ? factor * static_cast<A>(by_target.inverse_degree(target)) : factor;
        };
        sum_rows(by_source, grad, results, width, factor_of, [](int64_t) { return 1.0; });
      }
      gradient.x = accumulate(grad_x, into);
    }
    if (wanted.edge_weight) {
      const Tensor x = x_SF.contiguous();
      gradient.edge_weight = at::empty({graph.edges()}, grad_y.options().dtype(wide));
      weight_gradients(by_target, grad, x.const_data_ptr<T>(), largest, reduction == Reduction::mean,
                       gradient.edge_weight.mutable_data_ptr<A>(), width);
    }
  });
  if (wanted.edge_weight) gradient.edge_weight = gradient.edge_weight.to(edge_weight_E.scalar_type());
  return gradient;
}

}  // namespace strata::kernels
