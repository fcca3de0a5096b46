// SPDX-License-Identifier: MIT
// The edges that a warp handles, and the vectors in which it reads messages.
#pragma once

#include "kernels/cuda/device_utils.cuh"
#include "kernels/neighbor_aggregate/neighbor_aggregate_cuda.h"

namespace strata::kernels {

inline constexpr int kThreads = 128, kWarps = kThreads / kWarp;
inline constexpr unsigned kAll = 0xffffffffu;

// Messages that a group loads before it adds the first of them.
inline constexpr int kUnroll = 4;

// The edges of one warp.
struct Piece {
  int64_t row, begin, end;
  int64_t piece;  // -1: this is a whole row
};

// Finds the edges of this warp. Returns false if it has none. Pieces come first, because they take longest.
__device__ inline bool find_piece(const GraphRows& graph, Piece& p) {
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (warp < graph.pieces) {
    p.row = graph.piece_rows[warp];
    p.begin = graph.piece_begins[warp];
    p.end = min(p.begin + graph.piece_length, graph.offsets[p.row + 1]);
    p.piece = warp;
    return true;
  }
  p.row = warp - graph.pieces;
  if (p.row >= graph.rows) return false;
  p.begin = graph.offsets[p.row];
  p.end = graph.offsets[p.row + 1];
  p.piece = -1;
  return p.end - p.begin <= graph.piece_length;
}

inline unsigned blocks_of(const GraphRows& graph) {
  return static_cast<unsigned>(ceil_divide<int64_t>(graph.pieces + graph.rows, kWarps));
}

__device__ inline int neighbor_at(const GraphRows& graph, int64_t place) {
  return graph.neighbors == nullptr ? static_cast<int>(place) : graph.neighbors[place];
}

// The column of each lane. kLanes adjacent lanes hold one vector each of a message of `width` elements, and blockIdx.y
// selects the part of the message. The groups of kLanes lanes take turns over the edges.
template <int kLanes, int kVector>
struct Lanes {
  static constexpr int kGroups = kWarp / kLanes;
  int lane = threadIdx.x % kWarp, group = lane / kLanes;
  int64_t column = (static_cast<int64_t>(blockIdx.y) * kLanes + lane % kLanes) * kVector;
};

// Iterates a warp over its edges, 32 at a time. load(place, there) lets each lane load the values of one edge.
// round(base, first, count) handles kStep of these edges from `first` on; `count` of the 32 exist, and their places
// start at `base`.
template <int kStep, class Load, class Round>
__device__ void walk_edges(const Piece& p, Load load, Round round) {
  const int lane = threadIdx.x % kWarp;
  for (int64_t base = p.begin; base < p.end; base += kWarp) {
    const int count = static_cast<int>(min(p.end - base, static_cast<int64_t>(kWarp)));
    load(base + lane, lane < count);
    for (int first = 0; first < count; first += kStep) round(base, first, count);
  }
}

// Returns the value that another lane holds.
template <class Value>
__device__ Value from_lane(Value held, int lane) {
  return __shfl_sync(kAll, held, lane % kWarp);
}

// Joins the groups' values of each element. All lanes of a column get the result.
template <int kLanes, class Value, int N, class Join>
__device__ void join_groups(Value (&values)[N], Join join) {
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = join(values[k], offset);
  }
}

template <int kLanes, int N>
__device__ void add_groups(float (&sums)[N]) {
  join_groups<kLanes>(sums, [](float sum, int offset) { return sum + __shfl_xor_sync(kAll, sum, offset); });
}

// One element, with the interface of Packed.
template <class T>
struct Single {
  static constexpr int kWidth = 1;
  T element;
  __device__ float at(int) const { return to_float(element); }
  template <class Value>
  __device__ void fill(Value value) {
    element = from_float<T>(value(0));
  }
};

// V is Packed<T> or Single<T>.
template <class V, class T>
__device__ V load(const T* pointer) {
  return *reinterpret_cast<const V*>(pointer);
}

template <class V>
__device__ V zeros() {
  V v;
  v.fill([](int) { return 0.0f; });
  return v;
}

// Stores the result of a row, or of a piece in fp32: N elements of `width` from `column` on.
template <class V, class T, int N>
__device__ void store_result(const Piece& p, T* y, float* partials, int64_t width, int64_t column,
                             const float (&results)[N]) {
  if (p.piece >= 0) {
    for (int k = 0; k < N; ++k) partials[p.piece * width + column + k] = results[k];
    return;
  }
  V vector;
  vector.fill([&](int k) { return results[k]; });
  store_streaming(reinterpret_cast<V*>(y + p.row * width + column), vector);
}

// Threads of a block that join one column of a long row.
inline constexpr int kJoiners = 8;

// Called by a block of kWarp columns x kJoiners threads for the long row blockIdx.x. Joins of(index) over its pieces,
// always in the same order. In threads that return true, `joined` is the result of `column`.
template <class Value, class Of, class Join>
__device__ bool join_pieces(const GraphRows& graph, int64_t width, int64_t column, Value& joined, Of of, Join join) {
  __shared__ Value values[kJoiners][kWarp];
  for (int64_t piece = graph.first_pieces[blockIdx.x] + threadIdx.y;
       column < width && piece < graph.first_pieces[blockIdx.x + 1]; piece += kJoiners) {
    joined = join(joined, of(piece * width + column));
  }
  values[threadIdx.y][threadIdx.x] = joined;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return false;
  for (int i = 1; i < kJoiners; ++i) joined = join(joined, values[i][threadIdx.x]);
  return true;
}

}  // namespace strata::kernels
