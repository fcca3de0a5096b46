// SPDX-License-Identifier: MIT
// Sums over the edges of each row, with factors of edges or of attention.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_edges.cuh"

namespace strata::kernels {

// The edges of the maxima of N adjacent features.
template <int N>
struct alignas(N == 1 ? 4 : 16) Edges {
  int32_t elements[N];
};

// Factors that are computed once per edge.
struct EdgeScale {
  static constexpr bool kOnlyTaken = false;
  static constexpr int kAhead = kUnroll;
  EdgeFactor factor;

  __device__ float edge_factor(int64_t place, int neighbor) const {
    float scale = 1.0f;
    if (factor.weight != nullptr) scale = factor.weight[factor.edge_of == nullptr ? place : factor.edge_of[place]];
    if (factor.neighbor_share != nullptr) scale *= factor.neighbor_share[neighbor];
    return scale;
  }
  struct Head {};
  __device__ Head head_of(int64_t, int64_t) const { return {}; }
  __device__ float head_factor(const Head&, int, float scale) const { return scale; }
};

// The factors of EdgeScale, for features whose maximum is this edge.
struct TakenScale : EdgeScale {
  static constexpr bool kOnlyTaken = true;
  // With four, which need 106 registers, 169,343 rows of 256 take 0.97 ms instead of 0.73.
  static constexpr int kAhead = 1;
  const int32_t* largest;  // [neighbors, width]
};

__device__ inline float leaky(float score, float slope) { return score > 0.0f ? score : slope * score; }

// Factors that are computed per edge and head.
struct AttentionScale {
  static constexpr bool kOnlyTaken = false;
  static constexpr int kAhead = kUnroll;
  AttentionScores scores;
  int64_t head_width;

  __device__ float edge_factor(int64_t, int) const { return 0.0f; }
  struct Head {
    int64_t head;
    float score, logsumexp;  // score and logsumexp of the row
  };
  __device__ Head head_of(int64_t row, int64_t column) const {
    const int64_t head = column / head_width, at = row * scores.heads + head;
    return {head, scores.row_scores[at], scores.row_logsumexp == nullptr ? 0.0f : scores.row_logsumexp[at]};
  }
  __device__ float head_factor(const Head& h, int neighbor, float) const {
    const int64_t at = neighbor * scores.heads + h.head;
    const float logsumexp = scores.neighbor_logsumexp == nullptr ? h.logsumexp : scores.neighbor_logsumexp[at];
    return __expf(leaky(h.score + scores.neighbor_scores[at], scores.negative_slope) - logsumexp);
  }
};

// blockIdx.y is a group of kLanes vectors of the width.
template <class T, class V, int kLanes, class Scale>
__global__ void __launch_bounds__(kThreads) sum_kernel(const NeighborSum a, const Scale scale) {
  constexpr int N = V::kWidth, kAhead = Scale::kAhead;
  using Columns = Lanes<kLanes, N>;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const Columns lanes;
  const int64_t column = lanes.column;
  const bool inside = column < a.width;
  const T* x = static_cast<const T*>(a.x) + column;
  const auto head = scale.head_of(p.row, inside ? column : 0);
  int neighbor, edge;
  float edge_factor, sum[N] = {};
  const auto load_edge = [&](int64_t place, bool there) {
    neighbor = there ? neighbor_at(a.graph, place) : 0;
    edge_factor = there ? scale.edge_factor(place, neighbor) : 0.0f;
    edge = Scale::kOnlyTaken && there ? a.factor.edge_of[place] : 0;
  };
  walk_edges<Columns::kGroups * kAhead>(p, load_edge, [&](int64_t, int first, int count) {
    V message[kAhead];
    float factor[kAhead];
    [[maybe_unused]] Edges<N> taken[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = first + u * Columns::kGroups + lanes.group;
      const int64_t from = from_lane(neighbor, i);
      factor[u] = from_lane(edge_factor, i);
      const bool there = inside && i < count;
      message[u] = there ? load<V>(x + from * a.x_stride) : zeros<V>();
      factor[u] = there ? scale.head_factor(head, from, factor[u]) : 0.0f;
      if constexpr (Scale::kOnlyTaken) {
        if (there) taken[u] = *reinterpret_cast<const Edges<N>*>(scale.largest + from * a.width + column);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if constexpr (Scale::kOnlyTaken) {
        const int i = first + u * Columns::kGroups + lanes.group, wanted = from_lane(edge, i);
        if (!inside || i >= count) continue;
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += taken[u].elements[k] == wanted ? factor[u] * message[u].at(k) : 0.0f;
      } else {
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += factor[u] * message[u].at(k);
      }
    }
  });
  add_groups<kLanes>(sum);
  if (lanes.group != 0 || !inside) return;
  if (a.mean && p.piece < 0 && p.end > p.begin) {
    const float share = 1.0f / static_cast<float>(p.end - p.begin);
    for (int k = 0; k < N; ++k) sum[k] *= share;
  }
  store_result<V>(p, static_cast<T*>(a.y), a.partials, a.width, column, sum);
}

// blockIdx.x is a long row; blockIdx.y and threadIdx.x are columns.
template <class T>
__global__ void __launch_bounds__(kWarp* kJoiners) join_sums_kernel(const NeighborSum a) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x, row = a.graph.long_rows[blockIdx.x];
  float sum = 0.0f;
  const auto add = [](float x, float y) { return x + y; };
  if (!join_pieces(
          a.graph, a.width, column, sum, [&](int64_t at) { return a.partials[at]; }, add))
    return;
  if (a.mean) sum /= static_cast<float>(a.graph.offsets[row + 1] - a.graph.offsets[row]);
  static_cast<T*>(a.y)[row * a.width + column] = from_float<T>(sum);
}

// share [rows] = 1 / the number of edges of each row.
static __global__ void __launch_bounds__(kThreads) share_kernel(const int64_t* offsets, float* share, int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row < rows) share[row] = 1.0f / static_cast<float>(max(offsets[row + 1] - offsets[row], int64_t{1}));
}

}  // namespace strata::kernels
