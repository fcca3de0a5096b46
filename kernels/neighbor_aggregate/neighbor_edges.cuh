// SPDX-License-Identifier: MIT
// The edges that a warp takes, and the vectors in which it reads messages.
#pragma once

#include "kernels/device_utils.cuh"
#include "kernels/neighbor_aggregate/neighbor_aggregate_cuda.h"

namespace strata::kernels {

inline constexpr int kThreads = 128, kWarps = kThreads / kWarp;
inline constexpr unsigned kAll = 0xffffffffu;

// Messages of a group that are loaded before the first of them is added.
inline constexpr int kUnroll = 4;

// The edges of one warp.
struct Piece {
  int64_t row, begin, end;
  int64_t piece;  // -1: the whole row
};

// False where the warp has nothing to do. Pieces come first: they take longest.
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

// Threads of a block that put together one column of a long row.
inline constexpr int kJoiners = 8;

}  // namespace strata::kernels
