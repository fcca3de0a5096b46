// SPDX-License-Identifier: MIT
// Level aten on CPUs: loops over the rows of one side of the graph, shared among threads by their edges.
// T an element, A fp32 or wider, in which sums are taken
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/neighbor_aggregate/neighbor_aggregate_aten.h"

namespace strata::kernels {
namespace {

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// One side of the graph as loops read it.
struct Rows {
  explicit Rows(const Adjacency& adjacency)
      : count(adjacency.rows()),
        edges(adjacency.neighbors.numel()),
        offsets(adjacency.offsets.const_data_ptr<int64_t>()),
        neighbors(adjacency.neighbors.const_data_ptr<int32_t>()) {}

  // 1 / the number of neighbors.
  double inverse_degree(int64_t row) const {
    return 1.0 / static_cast<double>(std::max<int64_t>(offsets[row + 1] - offsets[row], 1));
  }

  int64_t count, edges;
  const int64_t* offsets;
  const int32_t* neighbors;
};

// body(first row, last row) on all threads, each with about as many rows and edges as any other. An edge costs `width`.
// at::parallel_for runs on one thread in code that is not compiled with OpenMP, as ours is.
template <class Body>
void for_rows(const Rows& rows, int64_t width, const Body& body) {
  constexpr int64_t kFewest = 1 << 18;  // about 100 us; to start a thread takes 20
  const int64_t cost = rows.count + rows.edges;
  const int64_t threads = std::clamp<int64_t>(cost * width / kFewest, 1, at::get_num_threads());
  std::vector<int64_t> begins = {0};
  for (int64_t row = 0; threads > 1 && row < rows.count; ++row) {
    const auto next = static_cast<int64_t>(begins.size());
    if (next < threads && row + rows.offsets[row] >= cost * next / threads) begins.push_back(row);
  }
  begins.push_back(rows.count);
  std::vector<std::jthread> others;
  for (size_t i = 1; i + 1 < begins.size(); ++i) others.emplace_back(body, begins[i], begins[i + 1]);
  body(0, begins[1]);
}

// sum += factor * x
template <class T, class A>
[[gnu::always_inline]] inline void add_scaled_loop(A* __restrict sum, const T* __restrict x, A factor, int64_t width) {
  for (int64_t k = 0; k < width; ++k) sum[k] += factor * static_cast<A>(x[k]);
}

// The rest is compiled for every x86-64. With vectors of 32 bytes sums over a graph take 0.7 of the time.
const bool kHasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

[[gnu::target("avx2,fma")]] void add_scaled_avx2(float* sum, const float* x, float factor, int64_t width) {
  add_scaled_loop(sum, x, factor, width);
}

template <class T, class A>
void add_scaled(A* sum, const T* x, A factor, int64_t width) {
  if constexpr (std::is_same_v<T, float>) {
    if (kHasAvx2) return add_scaled_avx2(sum, x, factor, width);
  }
  add_scaled_loop(sum, x, factor, width);
}

// Rows are in no order that the processor could foresee. Eight edges ahead, half of the time.
template <class T>
void prefetch_neighbor(const Rows& rows, int64_t place, const T* x, int64_t width) {
  constexpr int64_t kAhead = 8, kLine = 64 / sizeof(T);
  if (place + kAhead >= rows.edges) return;
  const T* row = x + rows.neighbors[place + kAhead] * width;
  for (int64_t k = 0; k < width; k += kLine) __builtin_prefetch(row + k);
}

// The sum over many edges, taken for some of them at a time: the rounding errors of one long sum grow with its length.
template <class A>
class FoldedSum {
 public:
  explicit FoldedSum(int64_t width) : sum_(width), part_(width) {}

  void clear() {
    std::fill(sum_.begin(), sum_.end(), A{0});
    added_ = 0;
  }
  // Where the next term is to be added.
  A* next() {
    if (added_ > 0 && added_ % kTerms == 0) fold();
    return (added_++ < kTerms ? sum_ : part_).data();
  }
  const A* total() {
    if (added_ > kTerms) fold();
    return sum_.data();
  }

 private:
  static constexpr int64_t kTerms = 64;
  void fold() {
    if (added_ > kTerms) {
      for (size_t k = 0; k < sum_.size(); ++k) sum_[k] += part_[k];
    }
    std::fill(part_.begin(), part_.end(), A{0});
  }

  std::vector<A> sum_, part_;
  int64_t added_ = 0;
};

template <class T, class U>
double dot(const T* __restrict a, const U* __restrict b, int64_t width) {
  // Eight sums beside each other, in the same order in every build.
  constexpr int64_t kLanes = 8;
  Sum<T> sums[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= width; k += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<Sum<T>>(a[k + lane]) * static_cast<Sum<T>>(b[k + lane]);
  }
  double sum = 0;
  for (; k < width; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  for (const Sum<T> lane : sums) sum += lane;
  return sum;
}

// y[row] = scale_of(row) * the sum of factor_of(place, neighbor) * x[neighbor] over the row's edges.
template <class T, class FactorOf, class ScaleOf>
void sum_rows(const Rows& rows, const T* x, T* y, int64_t width, const FactorOf& factor_of, const ScaleOf& scale_of) {
  using A = Sum<T>;
  for_rows(rows, width, [&](int64_t first, int64_t last) {
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

// Weights as loops read them: a pointer of null stands for ones.
struct Weights {
  Weights(const Tensor& weights, at::ScalarType type)
      : held(weights.defined() ? weights.to(type).contiguous() : Tensor()) {}
  template <class A>
  const A* data() const {
    return held.defined() ? held.const_data_ptr<A>() : nullptr;
  }
  Tensor held;
};

template <class T>
void max_rows(const Rows& rows, const T* x, const Sum<T>* weight, T* y, int32_t* largest, int64_t width) {
  using A = Sum<T>;
  for_rows(rows, width, [&](int64_t first, int64_t last) {
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
          const bool is_larger = is_first || value > best[k] || value != value;  // what is not a number is kept
          best[k] = is_larger ? value : best[k];
          edge[k] = is_larger ? static_cast<int32_t>(place) : edge[k];
        }
      }
      for (int64_t k = 0; k < width; ++k) y[row * width + k] = static_cast<T>(best[k]);
    }
  });
}

// grad_x[s] of max: what went through the edges that were taken.
template <class T>
void max_rows_backward(const Rows& by_source, const int32_t* edge_of, const T* grad_y, const int32_t* largest,
                       const Sum<T>* weight, T* grad_x, int64_t width) {
  using A = Sum<T>;
  for_rows(by_source, width, [&](int64_t first, int64_t last) {
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

// The gradients of the edge weights, in the order of by_target.
template <class T>
void weight_gradients(const Rows& by_target, const T* grad_y, const T* x, const int32_t* largest, bool is_mean,
                      Sum<T>* gradient, int64_t width) {
  for_rows(by_target, width, [&](int64_t first, int64_t last) {
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

template <class Visit>
void visit_type(at::ScalarType type, const Visit& visit) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "neighbor_aggregate", [&] { visit(scalar_t{}); });
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
                                                          const WeightGradient& into) {
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
      gradient.x = deliver(grad_x, into);
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
  const at::ScalarType wide = sum_type(x.scalar_type());
  const Weights source_scores(score_source_SH, wide), target_scores(score_target_TH, wide);
  const Tensor y = at::empty({graph.targets, heads, width}, x.options());
  const Tensor logsumexp = at::empty({graph.targets, heads}, x.options().dtype(wide));
  const Rows rows(graph.by_target);
  visit_type(x.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const A slope = static_cast<A>(negative_slope);
    const A *source_score = source_scores.data<A>(), *target_score = target_scores.data<A>();
    const T* values = x.const_data_ptr<T>();
    T* results = y.mutable_data_ptr<T>();
    A* log_sums = logsumexp.mutable_data_ptr<A>();
    for_rows(rows, heads * width, [&](int64_t first, int64_t last) {
      std::vector<A> scores;
      FoldedSum<A> sum(width);
      for (int64_t row = first; row < last; ++row) {
        const int64_t begin = rows.offsets[row], degree = rows.offsets[row + 1] - begin;
        scores.resize(degree);
        for (int64_t h = 0; h < heads; ++h) {
          A most = -std::numeric_limits<A>::infinity();
          double total = 0;
          for (int64_t i = 0; i < degree; ++i) {
            const int64_t source = rows.neighbors[begin + i];
            scores[i] = leaky(source_score[source * heads + h] + target_score[row * heads + h], slope);
            most = std::max(most, scores[i]);
          }
          sum.clear();
          for (int64_t i = 0; i < degree; ++i) {
            const A factor = std::exp(scores[i] - most);
            total += factor;
            add_scaled(sum.next(), values + (rows.neighbors[begin + i] * heads + h) * width, factor, width);
          }
          const A scale = degree == 0 ? A{0} : static_cast<A>(1 / total);
          const A* sums = sum.total();
          for (int64_t k = 0; k < width; ++k) {
            results[(row * heads + h) * width + k] = static_cast<T>(sums[k] * scale);
          }
          log_sums[row * heads + h] = static_cast<A>(most + std::log(total));
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
  const at::ScalarType wide = sum_type(x.scalar_type());
  const auto wide_options = x.options().dtype(wide);
  const Weights source_scores(score_source_SH, wide), target_scores(score_target_TH, wide);
  const Rows by_target(graph.by_target), by_source(graph.by_source);
  const int32_t* edge_of = graph.edge_by_source.const_data_ptr<int32_t>();
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor grad_source = at::empty({graph.sources, heads}, wide_options);
  const Tensor grad_target = at::empty({graph.targets, heads}, wide_options);
  const Tensor grad_score = at::empty({graph.edges(), heads}, wide_options);  // before leaky_relu
  const Tensor along_y = at::empty({graph.targets, heads}, wide_options);     // grad_y . y
  visit_type(x.scalar_type(), [&]<class T>(T) {
    using A = Sum<T>;
    const A slope = static_cast<A>(negative_slope);
    const A *source_score = source_scores.data<A>(), *target_score = target_scores.data<A>();
    const A* log_sums = logsumexp_TH.const_data_ptr<A>();
    const T *grad = grad_y.const_data_ptr<T>(), *values = x.const_data_ptr<T>(), *results = y_THF.const_data_ptr<T>();
    T* to_x = grad_x.mutable_data_ptr<T>();
    A *to_source = grad_source.mutable_data_ptr<A>(), *to_target = grad_target.mutable_data_ptr<A>();
    A *to_score = grad_score.mutable_data_ptr<A>(), *products = along_y.mutable_data_ptr<A>();
    for_rows(by_target, heads * width, [&](int64_t first, int64_t last) {
      for (int64_t i = first * heads; i < last * heads; ++i) {
        products[i] = static_cast<A>(dot(grad + i * width, results + i * width, width));
      }
    });
    for_rows(by_source, heads * width, [&](int64_t first, int64_t last) {
      FoldedSum<A> sum(heads * width);
      std::vector<double> to_scores(heads);
      for (int64_t source = first; source < last; ++source) {
        sum.clear();
        std::fill(to_scores.begin(), to_scores.end(), 0.0);
        for (int64_t place = by_source.offsets[source]; place < by_source.offsets[source + 1]; ++place) {
          A* into = sum.next();
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t from = source * heads + h, to = by_source.neighbors[place] * heads + h;
            const A score = source_score[from] + target_score[to];
            const A share = std::exp(leaky(score, slope) - log_sums[to]);
            add_scaled(into + h * width, grad + to * width, share, width);
            const A to_share = static_cast<A>(dot(grad + to * width, values + from * width, width));
            const A to_edge = share * (to_share - products[to]) * (score > 0 ? A{1} : slope);
            to_scores[h] += to_edge;
            to_score[edge_of[place] * heads + h] = to_edge;
          }
        }
        const A* total = sum.total();
        for (int64_t k = 0; k < heads * width; ++k) to_x[source * heads * width + k] = static_cast<T>(total[k]);
        for (int64_t h = 0; h < heads; ++h) to_source[source * heads + h] = static_cast<A>(to_scores[h]);
      }
    });
    for_rows(by_target, heads, [&](int64_t first, int64_t last) {
      for (int64_t target = first; target < last; ++target) {
        for (int64_t h = 0; h < heads; ++h) {
          double sum = 0;
          for (int64_t place = by_target.offsets[target]; place < by_target.offsets[target + 1]; ++place) {
            sum += to_score[place * heads + h];
          }
          to_target[target * heads + h] = static_cast<A>(sum);
        }
      }
    });
  });
  return {grad_x, grad_source.to(score_source_SH.scalar_type()), grad_target.to(score_target_TH.scalar_type())};
}

}  // namespace strata::kernels
