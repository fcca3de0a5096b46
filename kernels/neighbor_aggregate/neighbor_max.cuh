// SPDX-License-Identifier: MIT
// The maximum message of each row.
#pragma once

#include <climits>

#include "kernels/neighbor_aggregate/neighbor_sum.cuh"

namespace strata::kernels {

// A message and its edge.
struct Candidate {
  float value;
  int edge;
};

// Returns the larger value; a NaN is larger than all numbers. Of equal values it returns the one with the first edge.
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
  constexpr int N = V::kWidth;
  using Columns = Lanes<kLanes, N>;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const Columns lanes;
  const int64_t column = lanes.column;
  const bool inside = column < a.width;
  const T* x = static_cast<const T*>(a.x) + column;
  const EdgeScale scale = {a.factor};
  Candidate best[N];
  for (int k = 0; k < N; ++k) best[k] = no_candidate();
  int neighbor;
  float edge_factor;
  const auto load_edge = [&](int64_t place, bool there) {
    neighbor = there ? neighbor_at(a.graph, place) : 0;
    edge_factor = there ? scale.edge_factor(place, neighbor) : 0.0f;
  };
  walk_edges<Columns::kGroups * kUnroll>(p, load_edge, [&](int64_t base, int first, int count) {
    V message[kUnroll];
    float factor[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = first + u * Columns::kGroups + lanes.group;
      const int64_t from = from_lane(neighbor, i);
      factor[u] = from_lane(edge_factor, i);
      message[u] = inside && i < count ? load<V>(x + from * a.x_stride) : zeros<V>();
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = first + u * Columns::kGroups + lanes.group;
      if (i >= count) continue;
      const int edge = static_cast<int>(base) + i;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float value = factor[u] * message[u].at(k);  // this edge is later than the best one
        if (value > best[k].value || value != value || best[k].edge == INT_MAX) best[k] = Candidate{value, edge};
      }
    }
  });
  join_groups<kLanes>(best, [](const Candidate& ours, int offset) {
    return larger(ours, {__shfl_xor_sync(kAll, ours.value, offset), __shfl_xor_sync(kAll, ours.edge, offset)});
  });
  if (lanes.group != 0 || !inside) return;
  const bool empty = p.begin == p.end;
  float values[N];
  Edges<N> edges;
  for (int k = 0; k < N; ++k) {
    values[k] = empty ? 0.0f : best[k].value;
    edges.elements[k] = empty ? -1 : best[k].edge;
  }
  store_result<V>(p, static_cast<T*>(a.y), a.partials, a.width, column, values);
  int32_t* places = p.piece >= 0 ? a.partial_largest + p.piece * a.width : a.largest + p.row * a.width;
  *reinterpret_cast<Edges<N>*>(places + column) = edges;
}

// blockIdx.x is a long row; blockIdx.y and threadIdx.x are columns.
template <class T>
__global__ void __launch_bounds__(kWarp* kJoiners) join_largest_kernel(const NeighborMax a) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x, row = a.graph.long_rows[blockIdx.x];
  Candidate best = no_candidate();
  const auto candidate = [&](int64_t at) { return Candidate{a.partials[at], a.partial_largest[at]}; };
  if (!join_pieces(a.graph, a.width, column, best, candidate,
                   [](const Candidate& x, const Candidate& y) { return larger(x, y); }))
    return;
  static_cast<T*>(a.y)[row * a.width + column] = from_float<T>(best.value);
  a.largest[row * a.width + column] = best.edge;
}

}  // namespace strata::kernels
