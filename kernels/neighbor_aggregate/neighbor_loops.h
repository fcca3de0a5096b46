// SPDX-License-Identifier: MIT
// Helpers for the loops of level aten on CPUs: the rows of one side of the graph, distributed over threads by their
// edges.
// T is the type of elements, A the type of sums, fp32 or wider.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/neighbor_aggregate/neighbor_graph.h"

namespace strata::kernels {

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// One side of the graph as raw pointers.
struct Rows {
  explicit Rows(const Adjacency& adjacency)
      : have_values(!adjacency.offsets.is_meta()),
        count(adjacency.rows()),
        edges(adjacency.neighbors.numel()),
        offsets(adjacency.offsets.const_data_ptr<int64_t>()),
        neighbors(adjacency.neighbors.const_data_ptr<int32_t>()) {}

  // Returns 1 / the number of neighbors, or 1 if there are none.
  double inverse_degree(int64_t row) const {
    return 1.0 / static_cast<double>(std::max<int64_t>(offsets[row + 1] - offsets[row], 1));
  }

  bool have_values;  // false: the graph is traced, and there is nothing to read or to write
  int64_t count, edges;
  const int64_t* offsets;
  const int32_t* neighbors;
};

// Calls body(first row, last row) on all threads, each with about the same number of rows and edges. An edge costs
// `width`. at::parallel_for would use one thread, because this code is not compiled with OpenMP.
template <class Body>
void for_each_row(const Rows& rows, int64_t width, const Body& body) {
  if (!rows.have_values) return;
  constexpr int64_t kFewest = 1 << 18;  // about 100 us; starting a thread takes 20 us
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

// Other code is compiled for every x86-64. With 32-byte vectors sums over a graph take 0.7 of the time.
inline const bool kHasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

[[gnu::target("avx2,fma")]] inline void add_scaled_avx2(float* sum, const float* x, float factor, int64_t width) {
  add_scaled_loop(sum, x, factor, width);
}

template <class T, class A>
void add_scaled(A* sum, const T* x, A factor, int64_t width) {
  if constexpr (std::is_same_v<T, float>) {
    if (kHasAvx2) return add_scaled_avx2(sum, x, factor, width);
  }
  add_scaled_loop(sum, x, factor, width);
}

// Prefetches the neighbor eight edges ahead, because processors cannot predict the order of rows. This halves the time.
template <class T>
void prefetch_neighbor(const Rows& rows, int64_t place, const T* x, int64_t width) {
  constexpr int64_t kAhead = 8, kLine = 64 / sizeof(T);
  if (place + kAhead >= rows.edges) return;
  const T* row = x + rows.neighbors[place + kAhead] * width;
  for (int64_t k = 0; k < width; k += kLine) __builtin_prefetch(row + k);
}

// A sum over many edges in parts of 64 terms, because the rounding errors of one long sum grow with its length.
template <class A>
class FoldedSum {
 public:
  explicit FoldedSum(int64_t width) : sum_(width), part_(width) {}

  void clear() {
    std::fill(sum_.begin(), sum_.end(), A{0});
    added_ = 0;
  }
  // Returns the vector to which the next term is added.
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
  // Eight independent sums give the same order in every build.
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

// Weights in the dtype of sums. A null pointer stands for ones.
struct Weights {
  Weights(const Tensor& weights, at::ScalarType type)
      : held(weights.defined() ? weights.to(type).contiguous() : Tensor()) {}
  template <class A>
  const A* data() const {
    return held.defined() ? held.const_data_ptr<A>() : nullptr;
  }
  Tensor held;
};

template <class Visit>
void visit_type(at::ScalarType type, const Visit& visit) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "neighbor_aggregate", [&] { visit(scalar_t{}); });
}

}  // namespace strata::kernels
