// SPDX-License-Identifier: MIT
// Kernels that only attention over edges needs: logsumexp of scores, dot products of the ends of edges, and the
// backward.
#pragma once

#include "kernels/neighbor_aggregate/neighbor_sum.cuh"

namespace strata::kernels {

// The values of one edge and head, computed from the dot product of the target's grad_y and the source's x.
struct ScoreGradient {
  float share, gradient;  // the edge's factor in y, and the gradient of its score before leaky_relu
};

__device__ inline ScoreGradient score_gradient(const TargetStatistics& target, float source_score, float product,
                                               float slope) {
  const float score = target.score + source_score;
  const float share = __expf(leaky(score, slope) - target.logsumexp);
  return {share, share * (product - target.along_y) * (score > 0.0f ? 1.0f : slope)};
}

// Sums values[u] over kLanes adjacent lanes and returns the sum of u = the lane's index among them modulo kCount. Four
// sums over eight lanes take seven exchanges; one sum after another would take twelve.
template <int kLanes, int kCount>
__device__ float sum_of_lane(float (&values)[kCount]) {
  const int lane = threadIdx.x % kCount;
#pragma unroll
  for (int offset = kLanes / 2; offset >= kCount; offset /= 2) {
#pragma unroll
    for (int u = 0; u < kCount; ++u) values[u] += __shfl_xor_sync(kAll, values[u], offset);
  }
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma unroll
    for (int u = 0; u < half; ++u) {
      const bool upper = (lane & half) != 0;
      const float kept = upper ? values[u + half] : values[u], given = upper ? values[u] : values[u + half];
      values[u] = kept + __shfl_xor_sync(kAll, given, half);
    }
  }
  return values[0];
}

// blockIdx.y is a group of heads; kLanes lanes hold the group and kHeadLanes lanes one head. Edges are handled in
// batches of four, so that each lane computes the score of one edge and head. (Batches of eight need 128 registers: a
// backward takes 0.80 ms instead of 0.66 for 169,343 nodes of four heads of 64.)
template <class T, int kLanes, int kHeadLanes>
__global__ void __launch_bounds__(kThreads) attention_backward_kernel(const AttentionBackward a) {
  using V = Packed<T>;
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes, kBatch = 4;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes, in_head = lane % kHeadLanes;
  const int64_t head = static_cast<int64_t>(blockIdx.y) * (kLanes / kHeadLanes) + lane % kLanes / kHeadLanes;
  const int64_t column = in_head * N, head_row = p.row * a.heads + head;
  const bool has_head = head < a.heads, inside = has_head && column < a.width;
  const T* grad_y = static_cast<const T*>(a.grad_y) + column;
  V ours = inside ? load<V>(static_cast<const T*>(a.x) + head_row * a.width + column) : zeros<V>();
  const float source_score = has_head ? a.source_scores[head_row] : 0.0f;
  int neighbor, edge;
  float sum[N] = {}, to_source[1] = {};
  const auto load_edge = [&](int64_t place, bool there) {
    neighbor = there ? neighbor_at(a.graph, place) : 0;
    edge = there ? a.edge_of[place] : 0;
  };
  walk_edges<kGroups * kBatch>(p, load_edge, [&](int64_t, int first, int count) {
    V theirs[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int i = first + u * kGroups + group;
      const int64_t at = from_lane(neighbor, i) * a.heads + head;
      theirs[u] = inside && i < count ? load<V>(grad_y + at * a.width) : zeros<V>();
    }
    const int mine = first + in_head % kBatch * kGroups + group;
    const int64_t at_target = from_lane(neighbor, mine) * a.heads + head;
    const int64_t at_edge = from_lane(edge, mine) * a.heads + head;
    const bool there = has_head && mine < count;
    const TargetStatistics target = there ? a.target_statistics[at_target] : TargetStatistics{};
    float products[kBatch] = {};
    ours.stay_packed();
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
#pragma unroll
      for (int k = 0; k < N; ++k) products[u] += ours.at(k) * theirs[u].at(k);
    }
    const float product = sum_of_lane<kHeadLanes>(products);
#pragma unroll
    for (int u = 0; u < kBatch; ++u) theirs[u].stay_packed();
    const ScoreGradient edge_gradient =
        there ? score_gradient(target, source_score, product, a.negative_slope) : ScoreGradient{};
    if (there && in_head < kBatch) {
      to_source[0] += edge_gradient.gradient;
      a.grad_score[at_edge] = edge_gradient.gradient;
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const float share = from_lane(edge_gradient.share, lane - in_head + u);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += share * theirs[u].at(k);
    }
  });
#pragma unroll
  for (int offset = kHeadLanes / 2; offset > 0; offset /= 2) {
    to_source[0] += __shfl_xor_sync(kAll, to_source[0], offset);
  }
  add_groups<kLanes>(to_source);
  add_groups<kLanes>(sum);
  if (group != 0 || !inside) return;
  float* source_sums = p.piece >= 0 ? a.source_partials + p.piece * a.heads : a.grad_source + p.row * a.heads;
  if (column == 0) source_sums[head] = to_source[0];
  store_result<V>(p, static_cast<T*>(a.grad_x), a.partials, a.heads * a.width, head * a.width + column, sum);
}

// blockIdx.y is a head. kLanes lanes read a row, in several steps if they cannot hold it.
template <class T, class V, int kLanes>
__global__ void __launch_bounds__(kThreads) products_kernel(const EdgeProducts a) {
  constexpr int N = V::kWidth, kGroups = kWarp / kLanes;
  Piece p;
  if (!find_piece(a.graph, p)) return;
  const int lane = threadIdx.x % kWarp, group = lane / kLanes;
  const int64_t stride = a.heads * a.width, head = blockIdx.y, head_row = p.row * a.heads + head;
  const T* row = static_cast<const T*>(a.row) + head_row * a.width;
  const T* neighbors = static_cast<const T*>(a.neighbor) + head * a.width;
  int neighbor;
  float product;  // product of the edge that this lane holds
  const auto load_edge = [&](int64_t place, bool there) {
    neighbor = there ? neighbor_at(a.graph, place) : 0;
    product = 0.0f;
  };
  walk_edges<kGroups * kUnroll>(p, load_edge, [&](int64_t base, int first, int count) {
    float dots[kUnroll] = {};
    int64_t from[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) from[u] = from_lane(neighbor, first + u * kGroups + group);
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
          const bool counts = a.largest == nullptr || a.largest[head_row * a.width + column + k] == edge;
          dots[u] += counts ? ours.at(k) * theirs[u].at(k) : 0.0f;
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2) dots[u] += __shfl_xor_sync(kAll, dots[u], offset);
      // Lane i takes the product of edge i from the first lane of the group that computed it.
      const int behind = lane - first - u * kGroups;
      const float dot = from_lane(dots[u], (behind & (kGroups - 1)) * kLanes);
      if (behind >= 0 && behind < kGroups) product = dot;
    }
    if (first + kGroups * kUnroll < count || lane >= count) return;
    if (a.target_statistics != nullptr) {
      const TargetStatistics target = a.target_statistics[head_row];
      product = score_gradient(target, a.source_scores[neighbor * a.heads + head], product, a.negative_slope).gradient;
    } else if (a.mean) {
      product /= static_cast<float>(a.graph.offsets[p.row + 1] - a.graph.offsets[p.row]);
    }
    a.products[(base + lane) * a.heads + head] = product;
  });
}

// A running log(sum(exp(value))): `most` is the largest value, `total` the sum of exp(value - most).
struct LogSum {
  float most, total;
  __device__ void add(float value) {
    const float larger = fmaxf(most, value);
    if (larger == -INFINITY) return;
    total = total * __expf(most - larger) + __expf(value - larger);
    most = larger;
  }
  // Merges the sums of lanes that are multiples of kStep apart; each of these lanes gets the result.
  template <int kStep>
  __device__ float reduce_warp() {
    float largest = most;
    for (int offset = kStep; offset < kWarp; offset *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, offset));
    }
    float sum = most == -INFINITY ? 0.0f : total * __expf(most - largest);
    for (int offset = kStep; offset < kWarp; offset *= 2) sum += __shfl_xor_sync(kAll, sum, offset);
    return largest == -INFINITY ? -INFINITY : largest + logf(sum);
  }
};

// blockIdx.y is a group of kHeads heads, which adjacent lanes hold.
template <int kHeads>
__global__ void __launch_bounds__(kThreads)
    logsumexp_kernel(const GraphRows graph, const AttentionScores scores, float* logsumexp, float* partials) {
  Piece p;
  if (!find_piece(graph, p)) return;
  const int lane = threadIdx.x % kWarp;
  const int64_t head = static_cast<int64_t>(blockIdx.y) * kHeads + lane % kHeads;
  const bool has_head = head < scores.heads;
  const float row_score = has_head ? scores.row_scores[p.row * scores.heads + head] : 0.0f;
  LogSum sum = {-INFINITY, 0.0f};
  for (int64_t place = p.begin + lane / kHeads; has_head && place < p.end; place += kWarp / kHeads) {
    const int64_t neighbor = neighbor_at(graph, place);
    sum.add(leaky(row_score + scores.neighbor_scores[neighbor * scores.heads + head], scores.negative_slope));
  }
  const float result = sum.reduce_warp<kHeads>();
  if (lane >= kHeads || !has_head) return;
  (p.piece >= 0 ? partials + p.piece * scores.heads : logsumexp + p.row * scores.heads)[head] = result;
}

// blockIdx.x is a long row, blockIdx.y a head.
static __global__ void __launch_bounds__(kWarp)
    join_logsumexp_kernel(const GraphRows graph, int64_t heads, float* logsumexp, const float* partials) {
  LogSum sum = {-INFINITY, 0.0f};
  for (int64_t piece = graph.first_pieces[blockIdx.x] + threadIdx.x; piece < graph.first_pieces[blockIdx.x + 1];
       piece += kWarp) {
    sum.add(partials[piece * heads + blockIdx.y]);
  }
  const float result = sum.reduce_warp<1>();
  if (threadIdx.x == 0) logsumexp[graph.long_rows[blockIdx.x] * heads + blockIdx.y] = result;
}

// kLanes lanes handle one row of grad_y and y.
template <class T, class V, int kLanes>
__global__ void __launch_bounds__(kThreads)
    target_statistics_kernel(const T* grad_y, const T* y, const float* score, const float* logsumexp,
                             TargetStatistics* statistics, int64_t rows, int64_t width) {
  constexpr int N = V::kWidth;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  float sum = 0.0f;
  for (int64_t column = lane * N; row < rows && column < width; column += kLanes * N) {
    const V ours = load<V>(y + row * width + column), gradient = load<V>(grad_y + row * width + column);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += gradient.at(k) * ours.at(k);
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAll, sum, offset);
  if (row < rows && lane == 0) statistics[row] = {score[row], logsumexp[row], sum};
}

}  // namespace strata::kernels
