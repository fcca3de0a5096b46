// SPDX-License-Identifier: MIT
// What attention over edges needs beside sums: logsumexp of scores, products of the ends of edges, the backward.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_sum.cuh"

namespace strata::kernels {

// Of an edge and head, given the product of grad_y of the target and x of the source.
struct ScoreGradient {
  float share, gradient;  // its factor in y, the gradient of its score in front of leaky_relu
};

__device__ inline ScoreGradient score_gradient(const TargetStatistics& target, float of_source, float product,
                                               float slope) {
  const float score = target.score + of_source;
  const float share = __expf(leaky(score, slope) - target.logsumexp);
  return {share, share * (product - target.along_y) * (score > 0.0f ? 1.0f : slope)};
}

// blockIdx.y: the heads that kLanes lanes hold, head_lanes lanes each, a power of two.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads) attention_backward_kernel(const AttentionBackward a, int head_lanes) {
  using V = Packed<T>;
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes, in_group = lane % kLanes;
  const int64_t head = static_cast<int64_t>(blockIdx.y) * (kLanes / head_lanes) + in_group / head_lanes;
  const int64_t column = in_group % head_lanes * N, of_row = p.row * a.heads + head;
  const bool has_head = head < a.heads, inside = has_head && column < a.width;
  const T* grad_y = static_cast<const T*>(a.grad_y) + column;
  const V ours = inside ? load<V>(static_cast<const T*>(a.x) + of_row * a.width + column) : zeros<V>();
  const float of_source = has_head ? a.of_source[of_row] : 0.0f;
  float sum[N] = {}, to_source = 0.0f;
  for (int64_t base = p.begin; base < p.end; base += kWarp) {
    const int count = static_cast<int>(min(p.end - base, static_cast<int64_t>(kWarp)));
    const int neighbor = lane < count ? neighbor_at(a.graph, base + lane) : 0;
    const int edge = lane < count ? a.edge_of[base + lane] : 0;
    for (int first = 0; first < count; first += kGroups * kUnroll) {
      V theirs[kUnroll];
      TargetStatistics target[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kGroups + group;
        const int64_t at = __shfl_sync(kAll, neighbor, i % kWarp) * a.heads + head;
        target[u] = i < count && has_head ? a.of_target[at] : TargetStatistics{};
        theirs[u] = i < count && inside ? load<V>(grad_y + at * a.width) : zeros<V>();
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kGroups + group;
        const int64_t at = static_cast<int64_t>(__shfl_sync(kAll, edge, i % kWarp)) * a.heads + head;
        float product = 0.0f;
#pragma unroll
        for (int k = 0; k < N; ++k) product += ours.at(k) * theirs[u].at(k);
        for (int offset = head_lanes / 2; offset > 0; offset /= 2) product += __shfl_xor_sync(kAll, product, offset);
        if (i >= count || !has_head) continue;
        const ScoreGradient of_edge = score_gradient(target[u], of_source, product, a.negative_slope);
        to_source += of_edge.gradient;
        if (column == 0) a.grad_score[at] = of_edge.gradient;
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += of_edge.share * theirs[u].at(k);
      }
    }
  }
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
    to_source += __shfl_xor_sync(kAll, to_source, offset);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += __shfl_xor_sync(kAll, sum[k], offset);
  }
  if (group != 0 || !inside) return;
  const int64_t at = (p.piece >= 0 ? p.piece : p.row) * a.heads + head;
  if (column == 0) (p.piece >= 0 ? a.partial_of_sources : a.grad_source)[at] = to_source;
  if (p.piece >= 0) {
    for (int k = 0; k < N; ++k) a.partials[at * a.width + column + k] = sum[k];
    return;
  }
  V y;
  y.fill([&](int k) { return sum[k]; });
  store_streaming(reinterpret_cast<V*>(static_cast<T*>(a.grad_x) + at * a.width + column), y);
}

// blockIdx.y: a head. kLanes lanes go through a row, in steps where they do not hold it.
template <class T, class V, int kLanes>
__global__ void __launch_bounds__(kThreads) products_kernel(const EdgeProducts a) {
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes;
  const int64_t stride = a.heads * a.width, head = blockIdx.y, of_row = p.row * a.heads + head;
  const T* row = static_cast<const T*>(a.row) + of_row * a.width;
  const T* neighbors = static_cast<const T*>(a.neighbor) + head * a.width;
  for (int64_t base = p.begin; base < p.end; base += kWarp) {
    const int count = static_cast<int>(min(p.end - base, static_cast<int64_t>(kWarp)));
    const int neighbor = lane < count ? neighbor_at(a.graph, base + lane) : 0;
    float product = 0.0f;  // of edge base + lane
    for (int first = 0; first < count; first += kGroups * kUnroll) {
      float dots[kUnroll] = {};
      int64_t from[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) from[u] = __shfl_sync(kAll, neighbor, (first + u * kGroups + group) % kWarp);
      for (int64_t column = lane % kLanes * N; column < a.width; column += kLanes * N) {
        const V ours = load<V>(row + column);
        V theirs[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const bool there = first + u * kGroups + group < count;
          theirs[u] = there ? load<V>(neighbors + from[u] * stride + column) : zeros<V>();
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const int edge = static_cast<int>(base) + first + u * kGroups + group;
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const bool counts = a.largest == nullptr || a.largest[of_row * a.width + column + k] == edge;
            dots[u] += counts ? ours.at(k) * theirs[u].at(k) : 0.0f;
          }
        }
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) dots[u] += __shfl_xor_sync(kAll, dots[u], offset);
        // Lane i takes the product of edge i from the first lane of the group that has it.
        const int behind = lane - first - u * kGroups;
        const float dot = __shfl_sync(kAll, dots[u], (behind & (kGroups - 1)) * kLanes);
        if (behind >= 0 && behind < kGroups) product = dot;
      }
    }
    if (lane >= count) continue;
    if (a.of_target != nullptr) {
      const TargetStatistics target = a.of_target[of_row];
      product = score_gradient(target, a.of_source[neighbor * a.heads + head], product, a.negative_slope).gradient;
    } else if (a.mean) {
      product /= static_cast<float>(a.graph.offsets[p.row + 1] - a.graph.offsets[p.row]);
    }
    a.products[(base + lane) * a.heads + head] = product;
  }
}

// log(sum(exp(.))) of what has been seen; `total` is of exp(value - most).
struct LogSum {
  float most, total;
  __device__ void add(float value) {
    const float larger = fmaxf(most, value);
    if (larger == -INFINITY) return;
    total = total * __expf(most - larger) + __expf(value - larger);
    most = larger;
  }
  // Of all lanes of the warp, in all of them.
  __device__ float of_warp() {
    float largest = most;
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, offset));
    }
    const float sum = warp_sum(most == -INFINITY ? 0.0f : total * __expf(most - largest));
    return largest == -INFINITY ? -INFINITY : largest + logf(sum);
  }
};

// blockIdx.y: a head.
static __global__ void __launch_bounds__(kThreads)
    logsumexp_kernel(const GraphRows graph, const AttentionScores scores, float* logsumexp, float* partials) {
  Piece p;
  if (!find_piece(graph, p)) return;
  const int64_t head = blockIdx.y, at = (p.piece >= 0 ? p.piece : p.row) * scores.heads + head;
  const float of_row = scores.of_row[p.row * scores.heads + head];
  LogSum sum = {-INFINITY, 0.0f};
  for (int64_t place = p.begin + threadIdx.x % kWarp; place < p.end; place += kWarp) {
    const int64_t neighbor = neighbor_at(graph, place);
    sum.add(leaky(of_row + scores.of_neighbor[neighbor * scores.heads + head], scores.negative_slope));
  }
  const float result = sum.of_warp();
  if (threadIdx.x % kWarp == 0) (p.piece >= 0 ? partials : logsumexp)[at] = result;
}

// blockIdx.x: a long row; blockIdx.y: a head.
static __global__ void __launch_bounds__(kWarp)
    join_logsumexp_kernel(const GraphRows graph, int64_t heads, float* logsumexp, const float* partials) {
  LogSum sum = {-INFINITY, 0.0f};
  for (int64_t piece = graph.first_pieces[blockIdx.x] + threadIdx.x; piece < graph.first_pieces[blockIdx.x + 1];
       piece += kWarp) {
    sum.add(partials[piece * heads + blockIdx.y]);
  }
  const float result = sum.of_warp();
  if (threadIdx.x == 0) logsumexp[graph.long_rows[blockIdx.x] * heads + blockIdx.y] = result;
}

// A warp takes a row of grad_y and y.
template <class T>
__global__ void __launch_bounds__(kThreads)
    target_statistics_kernel(const T* grad_y, const T* y, const float* score, const float* logsumexp,
                             TargetStatistics* statistics, int64_t rows, int64_t width) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int64_t i = row * width + threadIdx.x % kWarp; i < (row + 1) * width; i += kWarp) {
    sum += to_float(grad_y[i]) * to_float(y[i]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) statistics[row] = {score[row], logsumexp[row], sum};
}

}  // namespace strata::kernels
