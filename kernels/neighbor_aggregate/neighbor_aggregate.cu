// SPDX-License-Identifier: MIT
// neighbor_aggregate and neighbor_attention. A warp takes all edges of a row, or a piece of a long row: kLanes lanes
// hold a vector each of one message, and the groups of so many lanes take the edges in turn. Pieces leave
// partial results in fp32, which are put together in their order: no atomics.
#include <algorithm>
#include <bit>
#include <climits>

#include "kernels/device_utils.cuh"
#include "kernels/neighbor_aggregate/neighbor_aggregate_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr unsigned kAll = 0xffffffffu;

// Messages of a group that are loaded before the first of them is added.
constexpr int kUnroll = 4;

// The edges of one warp.
struct Piece {
  int64_t row, begin, end;
  int64_t piece;  // -1: the whole row
};

// False where the warp has nothing to do. Pieces come first: they take longest.
__device__ bool find_piece(const GraphRows& graph, Piece& p) {
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

unsigned blocks_of(const GraphRows& graph) {
  return static_cast<unsigned>(ceil_divide<int64_t>(graph.pieces + graph.rows, kWarps));
}

__device__ int neighbor_at(const GraphRows& graph, int64_t place) {
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

__device__ float leaky(float score, float slope) { return score > 0.0f ? score : slope * score; }

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

// Threads of a block that put together one column of a long row.
constexpr int kJoiners = 8;

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
__device__ Candidate larger(const Candidate& a, const Candidate& b) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a.value > b.value) return a;
  if (b.value > a.value) return b;
  return a.edge < b.edge ? a : b;
}

__device__ Candidate no_candidate() { return {-INFINITY, INT_MAX}; }

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

// Of an edge and head, given the product of grad_y of the target and x of the source.
struct ScoreGradient {
  float share, gradient;  // its factor in y, the gradient of its score in front of leaky_relu
};

__device__ ScoreGradient score_gradient(const TargetStatistics& target, float of_source, float product, float slope) {
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
__global__ void __launch_bounds__(kThreads)
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
__global__ void __launch_bounds__(kWarp)
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

// Calls visit(V{}, lanes) with the vectors in which rows of `width` can be read, and how many lanes read them.
template <class T, class Visit>
cudaError_t visit_lanes(int64_t width, bool aligned, Visit visit) {
  if (aligned && width % kVectorWidth<T> == 0) {
    const int64_t lanes = width / kVectorWidth<T>;
    if (lanes <= 1) return visit(Packed<T>{}, std::integral_constant<int, 1>());
    if (lanes <= 4) return visit(Packed<T>{}, std::integral_constant<int, 4>());
    if (lanes <= 8) return visit(Packed<T>{}, std::integral_constant<int, 8>());
    if (lanes <= 16) return visit(Packed<T>{}, std::integral_constant<int, 16>());
    return visit(Packed<T>{}, std::integral_constant<int, 32>());
  }
  if (width <= 2) return visit(Single<T>{}, std::integral_constant<int, 1>());
  return visit(Single<T>{}, std::integral_constant<int, 32>());
}

dim3 grid(const GraphRows& graph, int64_t width, int64_t tile) {
  return {blocks_of(graph), static_cast<unsigned>(ceil_divide(width, tile))};
}

dim3 join_grid(const GraphRows& graph, int64_t width) {
  return {static_cast<unsigned>(graph.long_row_count), static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp))};
}

template <class ScaleOf>
cudaError_t launch_sum(const NeighborSum& a, bool heads_are_whole, const ScaleOf& scale, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const bool aligned = are_aligned(a.x, a.y) && heads_are_whole;
    const cudaError_t status =
        visit_lanes<T>(a.width, aligned, [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          sum_kernel<T, V, kLanes><<<grid(a.graph, a.width, kLanes * V::kWidth), kThreads, 0, stream>>>(a, scale);
          return cudaGetLastError();
        });
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    join_sums_kernel<T><<<join_grid(a.graph, a.width), dim3(kWarp, kJoiners), 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_neighbor_sum(const NeighborSum& a, cudaStream_t stream) {
  return launch_sum(a, /*heads_are_whole=*/true, EdgeScale{a.factor}, stream);
}

cudaError_t launch_attention_sum(const NeighborSum& a, const AttentionScores& scores, cudaStream_t stream) {
  const int64_t head_width = a.width / std::max<int64_t>(scores.heads, 1);
  const int64_t vector = a.type == CudaType::float32 ? kVectorWidth<float> : kVectorWidth<__half>;
  return launch_sum(a, head_width % vector == 0, AttentionScale{scores, head_width}, stream);
}

cudaError_t launch_neighbor_max(const NeighborMax& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const cudaError_t status = visit_lanes<T>(
        a.width, are_aligned(a.x, a.y), [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          max_kernel<T, V, kLanes><<<grid(a.graph, a.width, kLanes * V::kWidth), kThreads, 0, stream>>>(a);
          return cudaGetLastError();
        });
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    join_largest_kernel<T><<<join_grid(a.graph, a.width), dim3(kWarp, kJoiners), 0, stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t launch_neighbor_max_backward(const NeighborMaxBackward& backward, cudaStream_t stream) {
  const NeighborSum& a = backward.sum;
  if (a.graph.rows == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const cudaError_t status = visit_lanes<T>(
        a.width, are_aligned(a.x, a.y), [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          max_backward_kernel<T, V, kLanes>
              <<<grid(a.graph, a.width, kLanes * V::kWidth), kThreads, 0, stream>>>(backward);
          return cudaGetLastError();
        });
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    join_sums_kernel<T><<<join_grid(a.graph, a.width), dim3(kWarp, kJoiners), 0, stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t launch_edge_products(const EdgeProducts& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.heads == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    return visit_lanes<T>(a.width, are_aligned(a.row, a.neighbor),
                          [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
                            products_kernel<T, V, kLanes><<<grid(a.graph, a.heads, 1), kThreads, 0, stream>>>(a);
                            return cudaGetLastError();
                          });
  });
}

cudaError_t launch_score_logsumexp(const GraphRows& graph, const AttentionScores& scores, float* logsumexp,
                                   float* partials, cudaStream_t stream) {
  if (graph.rows == 0 || scores.heads == 0) return cudaSuccess;
  logsumexp_kernel<<<grid(graph, scores.heads, 1), kThreads, 0, stream>>>(graph, scores, logsumexp, partials);
  if (graph.pieces > 0) {
    const dim3 blocks(static_cast<unsigned>(graph.long_row_count), static_cast<unsigned>(scores.heads));
    join_logsumexp_kernel<<<blocks, kWarp, 0, stream>>>(graph, scores.heads, logsumexp, partials);
  }
  return cudaGetLastError();
}

cudaError_t launch_target_statistics(CudaType type, const void* grad_y, const void* y, const float* score,
                                     const float* logsumexp, TargetStatistics* statistics, int64_t rows, int64_t width,
                                     cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    target_statistics_kernel<T><<<static_cast<unsigned>(ceil_divide<int64_t>(rows, kWarps)), kThreads, 0, stream>>>(
        static_cast<const T*>(grad_y), static_cast<const T*>(y), score, logsumexp, statistics, rows, width);
    return cudaGetLastError();
  });
}

bool attention_backward_is_one_pass(const AttentionBackward& a) {
  const int64_t vector = a.type == CudaType::float32 ? kVectorWidth<float> : kVectorWidth<__half>;
  return a.width % vector == 0 && a.width <= kWarp * vector && are_aligned(a.grad_y, a.x, a.grad_x);
}

cudaError_t launch_attention_backward(const AttentionBackward& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.heads == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const auto head_lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(a.width / kVectorWidth<T>)));
    const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(a.heads))) * head_lanes;
    const auto launch = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
      attention_backward_kernel<T, kLanes>
          <<<grid(a.graph, a.heads, kLanes / head_lanes), kThreads, 0, stream>>>(a, head_lanes);
      return cudaGetLastError();
    };
    const cudaError_t status = wanted <= 8    ? launch(std::integral_constant<int, 8>())
                               : wanted <= 16 ? launch(std::integral_constant<int, 16>())
                                              : launch(std::integral_constant<int, 32>());
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    const NeighborSum of_x = {a.type, a.graph, nullptr, a.grad_x, a.heads * a.width, {}, false, a.partials};
    join_sums_kernel<T><<<join_grid(a.graph, of_x.width), dim3(kWarp, kJoiners), 0, stream>>>(of_x);
    const NeighborSum of_sources = {CudaType::float32, a.graph, nullptr, a.grad_source,
                                    a.heads,           {},      false,   a.partial_of_sources};
    join_sums_kernel<float><<<join_grid(a.graph, a.heads), dim3(kWarp, kJoiners), 0, stream>>>(of_sources);
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
