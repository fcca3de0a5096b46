// SPDX-License-Identifier: MIT
// The largest message of each row, and the gradient that goes through the edges that were taken.
#pragma once

#include <climits>

#include "kernels/neighbor_aggregate/neighbor_sum.cuh"

namespace strata::kernels {

// The edges that max took, of neighboring features.
template <int N>
struct alignas(N == 1 ? 4 : 16) Edges {
  int32_t elements[N];
};

// A message and its edge.
struct Candidate {
  float value;
  int edge;
};

// The larger value, and what is not a number before all others; of equal ones the first edge.
__device__ inline Candidate larger(const Candidate& a, const Candidate& b) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a.value > b.value) return a;
  if (b.value > a.value) return b;
  return a.edge < b.edge ? a : b;
}

__device__ inline Candidate no_candidate() { return {-INFINITY, INT_MAX}; }

template <class T, class V, int kLanes>
__global__ void __launch_bounds__(kThreads) max_kernel(const NeighborMax a) {
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kLanes + lane % kLanes) * N;
  const bool inside = column < a.width;
  const T* x = static_cast<const T*>(a.x) + column;
  const EdgeScale scale = {a.factor};
  Candidate best[N];
  for (int k = 0; k < N; ++k) best[k] = no_candidate();
  for (int64_t base = p.begin; base < p.end; base += kWarp) {
    const int count = static_cast<int>(min(p.end - base, static_cast<int64_t>(kWarp)));
    const int neighbor = lane < count ? neighbor_at(a.graph, base + lane) : 0;
    const float of_edge = lane < count ? scale.of_edge(base + lane, neighbor) : 0.0f;
    for (int first = 0; first < count; first += kGroups * kUnroll) {
      V message[kUnroll];
      float factor[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kGroups + group;
        const int from = __shfl_sync(kAll, neighbor, i % kWarp);
        factor[u] = __shfl_sync(kAll, of_edge, i % kWarp);
        message[u] = inside && i < count ? load<V>(x + from * a.width) : zeros<V>();
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kGroups + group;
        if (i >= count) continue;
        const int edge = static_cast<int>(base) + i;
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float value = factor[u] * message[u].at(k);  // of a later edge than the best
          if (value > best[k].value || value != value || best[k].edge == INT_MAX) best[k] = Candidate{value, edge};
        }
      }
    }
  }
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      best[k] =
          larger(best[k], {__shfl_xor_sync(kAll, best[k].value, offset), __shfl_xor_sync(kAll, best[k].edge, offset)});
    }
  }
  if (group != 0 || !inside) return;
  const int64_t at = (p.piece >= 0 ? p.piece : p.row) * a.width + column;
  if (p.piece >= 0) {
    for (int k = 0; k < N; ++k) {
      a.partials[at + k] = best[k].value;
      a.partial_largest[at + k] = best[k].edge;
    }
    return;
  }
  const bool empty = p.begin == p.end;
  V y;
  y.fill([&](int k) { return empty ? 0.0f : best[k].value; });
  store_streaming(reinterpret_cast<V*>(static_cast<T*>(a.y) + at), y);
  Edges<N> edges;
  for (int k = 0; k < N; ++k) edges.elements[k] = empty ? -1 : best[k].edge;
  *reinterpret_cast<Edges<N>*>(a.largest + at) = edges;
}

// blockIdx.x: a long row; blockIdx.y and threadIdx.x: columns.
template <class T>
__global__ void __launch_bounds__(kWarp* kJoiners) join_largest_kernel(const NeighborMax a) {
  __shared__ Candidate candidates[kJoiners][kWarp];
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x, row = a.graph.long_rows[blockIdx.x];
  Candidate best = no_candidate();
  for (int64_t piece = a.graph.first_pieces[blockIdx.x] + threadIdx.y;
       column < a.width && piece < a.graph.first_pieces[blockIdx.x + 1]; piece += kJoiners) {
    best = larger(best, {a.partials[piece * a.width + column], a.partial_largest[piece * a.width + column]});
  }
  candidates[threadIdx.y][threadIdx.x] = best;
  __syncthreads();
  if (threadIdx.y != 0 || column >= a.width) return;
  for (int i = 1; i < kJoiners; ++i) best = larger(best, candidates[i][threadIdx.x]);
  static_cast<T*>(a.y)[row * a.width + column] = from_float<T>(best.value);
  a.largest[row * a.width + column] = best.edge;
}

// As sum_kernel, of what went through the edges that max took.
template <class T, class V, int kLanes>
__global__ void __launch_bounds__(kThreads) max_backward_kernel(const NeighborMaxBackward backward) {
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  const NeighborSum& a = backward.sum;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kLanes + lane % kLanes) * N;
  const bool inside = column < a.width;
  const EdgeScale scale = {a.factor};
  float sum[N] = {};
  for (int64_t base = p.begin; base < p.end; base += kWarp) {
    const int count = static_cast<int>(min(p.end - base, static_cast<int64_t>(kWarp)));
    const int neighbor = lane < count ? neighbor_at(a.graph, base + lane) : 0;
    const int edge = lane < count ? a.factor.edge_of[base + lane] : -1;
    const float of_edge = lane < count ? scale.of_edge(base + lane, neighbor) : 0.0f;
    for (int first = 0; first < count; first += kGroups) {
      const int i = first + group;
      const int64_t from = __shfl_sync(kAll, neighbor, i % kWarp);
      const int wanted = __shfl_sync(kAll, edge, i % kWarp);
      const float factor = __shfl_sync(kAll, of_edge, i % kWarp);
      if (!inside || i >= count) continue;
      const V message = load<V>(static_cast<const T*>(a.x) + from * a.width + column);
      const auto taken = *reinterpret_cast<const Edges<N>*>(backward.largest + from * a.width + column);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += taken.elements[k] == wanted ? factor * message.at(k) : 0.0f;
    }
  }
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += __shfl_xor_sync(kAll, sum[k], offset);
  }
  if (group != 0 || !inside) return;
  if (p.piece >= 0) {
    for (int k = 0; k < N; ++k) a.partials[p.piece * a.width + column + k] = sum[k];
    return;
  }
  V y;
  y.fill([&](int k) { return sum[k]; });
  store_streaming(reinterpret_cast<V*>(static_cast<T*>(a.y) + p.row * a.width + column), y);
}

}  // namespace strata::kernels
