// SPDX-License-Identifier: MIT
// Sums over the edges of each row, with factors of edges or of attention.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_edges.cuh"

namespace strata::kernels {

// Known once for each edge.
struct EdgeScale {
  EdgeFactor factor;

  __device__ float of_edge(int64_t place, int neighbor) const {
    float scale = 1.0f;
    if (factor.weight != nullptr) scale = factor.weight[factor.edge_of == nullptr ? place : factor.edge_of[place]];
    if (factor.neighbor_offsets != nullptr) {
      const int64_t* offsets = factor.neighbor_offsets + neighbor;
      scale /= static_cast<float>(offsets[1] - offsets[0]);
    }
    return scale;
  }
  struct Head {};
  __device__ Head head_of(int64_t, int64_t) const { return {}; }
  __device__ float of_head(const Head&, int, float scale) const { return scale; }
};

__device__ inline float leaky(float score, float slope) { return score > 0.0f ? score : slope * score; }

// Known for each edge and head.
struct AttentionScale {
  AttentionScores scores;
  int64_t head_width;

  __device__ float of_edge(int64_t, int) const { return 0.0f; }
  struct Head {
    int64_t head;
    float score, logsumexp;  // of the row
  };
  __device__ Head head_of(int64_t row, int64_t column) const {
    const int64_t head = column / head_width, at = row * scores.heads + head;
    return {head, scores.of_row[at], scores.logsumexp_of_row == nullptr ? 0.0f : scores.logsumexp_of_row[at]};
  }
  __device__ float of_head(const Head& h, int neighbor, float) const {
    const int64_t at = neighbor * scores.heads + h.head;
    const float logsumexp = scores.logsumexp_of_neighbor == nullptr ? h.logsumexp : scores.logsumexp_of_neighbor[at];
    return __expf(leaky(h.score + scores.of_neighbor[at], scores.negative_slope) - logsumexp);
  }
};

// blockIdx.y: kLanes vectors of the width.
template <class T, class V, int kLanes, class Scale>
__global__ void __launch_bounds__(kThreads) sum_kernel(const NeighborSum a, const Scale scale) {
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kLanes + lane % kLanes) * N;
  const bool inside = column < a.width;
  const T* x = static_cast<const T*>(a.x) + column;
  const auto head = scale.head_of(p.row, inside ? column : 0);
  float sum[N] = {};
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
        const bool there = inside && i < count;
        message[u] = there ? load<V>(x + from * a.width) : zeros<V>();
        factor[u] = there ? scale.of_head(head, from, factor[u]) : 0.0f;
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += factor[u] * message[u].at(k);
      }
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
  const float share = a.mean && p.end > p.begin ? 1.0f / static_cast<float>(p.end - p.begin) : 1.0f;
  V y;
  y.fill([&](int k) { return sum[k] * share; });
  store_streaming(reinterpret_cast<V*>(static_cast<T*>(a.y) + p.row * a.width + column), y);
}

// blockIdx.x: a long row; blockIdx.y and threadIdx.x: columns.
template <class T>
__global__ void __launch_bounds__(kWarp* kJoiners) join_sums_kernel(const NeighborSum a) {
  __shared__ float sums[kJoiners][kWarp];
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x, row = a.graph.long_rows[blockIdx.x];
  float sum = 0.0f;
  for (int64_t piece = a.graph.first_pieces[blockIdx.x] + threadIdx.y;
       column < a.width && piece < a.graph.first_pieces[blockIdx.x + 1]; piece += kJoiners) {
    sum += a.partials[piece * a.width + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= a.width) return;
  for (int i = 1; i < kJoiners; ++i) sum += sums[i][threadIdx.x];
  if (a.mean) sum /= static_cast<float>(a.graph.offsets[row + 1] - a.graph.offsets[row]);
  static_cast<T*>(a.y)[row * a.width + column] = from_float<T>(sum);
}

}  // namespace strata::kernels
