// SPDX-License-Identifier: MIT
// Attention of one token over the keys and values of a cache. A cluster of blocks shares the keys of a row and a few
// query heads of one group, and adds up its parts through shared memory, as in split softmax (FlashDecoding, Dao et al.
// 2023).
#include <cooperative_groups.h>

#include <cmath>

#include "kernels/activation/activation_math.cuh"
#include "kernels/attention/cached/cached_attention_cuda.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"

namespace strata::kernels {
namespace {

constexpr int kBlocks = 8;  // of a cluster
constexpr int kWarps = 8;   // of a block
constexpr int kWidest = kWidestCachedHead;

// A head is spread over kLanes lanes with kVectors vectors each. A block has kQueries heads of one group.
template <class Type, int kLanesOfHead, int kVectorsOfLane, int kQueriesOfBlock>
struct Layout {
  using T = Type;
  static constexpr int N = kVectorWidth<T>, kLanes = kLanesOfHead, kVectors = kVectorsOfLane,
                       kQueries = kQueriesOfBlock;
  static constexpr int kAhead = kQueries * kVectors < 4 ? 4 : 2;  // keys whose vectors a thread loads at once
};

// exp(x - maximum), and 0 if there is no key yet.
template <class T>
__device__ float share_of(float x, float maximum) {
  return x == -INFINITY ? 0.0f : exponential<T>(x - maximum);
}

// The softmax of some keys for one query, before it is divided by the sum.
template <class T, int kElements>
struct Sum {
  float maximum = -INFINITY, total = 0.0f, values[kElements] = {};

  // Prepares for a maximum that may be larger.
  __device__ void raise(float other) {
    const float higher = fmaxf(maximum, other), factor = share_of<T>(maximum, higher);
    maximum = higher;
    total *= factor;
#pragma unroll
    for (int k = 0; k < kElements; ++k) values[k] *= factor;
  }
};

template <class T>
struct Shared {
  alignas(16) T key[kWidest], value[kWidest];  // of the token
};

template <class Layout>
struct Parts {
  float maximum[Layout::kQueries], total[Layout::kQueries], values[Layout::kQueries][kWidest];
};

// Element `column` of a head of the token in `row`, turned by its position and rounded.
template <class T>
__device__ float turned(const CachedAttention& a, const T* head, int column, int64_t row) {
  if (a.cosine == nullptr) return to_float(head[column]);
  const int half = a.head_width / 2, pair = column % half;
  const float c = a.cosine[row * half + pair], s = a.sine[row * half + pair];
  const float first = to_float(head[pair]), second = to_float(head[pair + half]);
  return to_float(from_float<T>(column < half ? first * c - second * s : second * c + first * s));
}

// blockIdx: x the block of the cluster, y the group and its part, z the row.
template <class L>
__global__ void __launch_bounds__(kWarps* kWarp, 2) cached_attention_kernel(const CachedAttention a) {
  using T = typename L::T;
  constexpr int N = L::N, kAhead = L::kAhead, kElements = L::kVectors * N, kKeysOfWarp = kWarp / L::kLanes;
  constexpr int kKeysOfBlock = kWarps * kKeysOfWarp;
  namespace groups = cooperative_groups;
  const groups::cluster_group cluster = groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % L::kLanes;
  const int width = a.head_width, per_group = a.heads / a.key_value_heads;
  const int parts_of_group = static_cast<int>(gridDim.y) / a.key_value_heads;
  const int group = static_cast<int>(blockIdx.y) / parts_of_group, part = static_cast<int>(blockIdx.y) % parts_of_group;
  const int first_query = part * L::kQueries, queries = min(L::kQueries, per_group - first_query);
  const int64_t row = blockIdx.z, position = a.positions[row], slot = position % a.slots;

  // The keys of this block, and those of this thread: every kKeysOfBlock-th of them.
  const int64_t stored = min(position + 1, a.slots), share = (stored + kBlocks - 1) / kBlocks;
  const int64_t begin = blockIdx.x * share, end = min(begin + share, stored);
  const int64_t first = begin + thread / L::kLanes;
  const int64_t key_offset = (row * a.key_value_heads + group) * a.slots * width;
  T* keys = static_cast<T*>(a.cache) + key_offset;
  const auto column_of = [&](int v) { return (lane + v * L::kLanes) * N; };

  Packed<T> key[kAhead][L::kVectors], value[kAhead][L::kVectors];
  const auto load = [&](int64_t start) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int v = 0; v < L::kVectors; ++v) {
        const int64_t place = start + i * kKeysOfBlock;
        const bool inside = place < end && column_of(v) < width;
        const T* pointer = keys + place * width + column_of(v);
        key[i][v].words = inside ? __ldcs(reinterpret_cast<const uint4*>(pointer)) : uint4{};
        value[i][v].words = inside ? __ldcs(reinterpret_cast<const uint4*>(pointer + a.values_offset)) : uint4{};
      }
    }
  };
  load(first);
  let_next_kernel_start();
  wait_for_kernel_before();

  // The token's own key and value, and the queries of this thread's columns.
  __shared__ Shared<T> fresh;
  const T* token = static_cast<const T*>(a.qkv) + row * (a.heads + 2 * a.key_value_heads) * width;
  for (int column = thread; column < width; column += kWarps * kWarp) {
    fresh.key[column] = from_float<T>(turned(a, token + (a.heads + group) * width, column, row));
    fresh.value[column] = token[(a.heads + a.key_value_heads + group) * width + column];
    if (slot < begin || slot >= end || part != 0) continue;
    keys[slot * width + column] = fresh.key[column];
    keys[slot * width + column + a.values_offset] = fresh.value[column];
  }
  __shared__ float query[L::kQueries][kWidest];
  for (int i = thread; i < L::kQueries * width; i += kWarps * kWarp) {
    const int head = group * per_group + first_query + min(i / width, queries - 1);
    query[i / width][i % width] = turned(a, token + head * width, i % width, row) * a.scale;
  }
  __syncthreads();
  float part_of_query[L::kQueries][kElements];
#pragma unroll
  for (int q = 0; q < L::kQueries; ++q) {
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int column = column_of(k / N) + k % N;
      part_of_query[q][k] = column < width ? query[q][column] : 0.0f;
    }
  }

  Sum<T, kElements> sums[L::kQueries];
  const auto bias_of = [&](int q, int64_t place) {
    if (a.bias == nullptr) return 0.0f;
    const int head = a.bias_heads == 1 ? 0 : group * per_group + first_query + min(q, queries - 1);
    return a.bias[(row * a.bias_heads + head) * a.slots + place];
  };
  // All lanes of a warp take part in the sums of each round.
  for (int64_t start = begin; start < end; start += kAhead * kKeysOfBlock) {
    if (start != begin) load(start + thread / L::kLanes);
    float scores[kAhead][L::kQueries];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t place = start + thread / L::kLanes + i * kKeysOfBlock;
      if (place == slot) {
#pragma unroll
        for (int v = 0; v < L::kVectors; ++v) {
          if (column_of(v) >= width) continue;
          key[i][v].words = *reinterpret_cast<const uint4*>(fresh.key + column_of(v));
          value[i][v].words = *reinterpret_cast<const uint4*>(fresh.value + column_of(v));
        }
      }
#pragma unroll
      for (int q = 0; q < L::kQueries; ++q) {
        float score = 0.0f;
#pragma unroll
        for (int k = 0; k < kElements; ++k) score = fmaf(part_of_query[q][k], key[i][k / N].at(k % N), score);
#pragma unroll
        for (int offset = L::kLanes / 2; offset > 0; offset /= 2) score += __shfl_xor_sync(0xffffffff, score, offset);
        if (a.softcap != 0.0f) score = a.softcap * tanhf(score / a.softcap);
        scores[i][q] = place < end ? score + bias_of(q, place) : -INFINITY;
      }
    }
#pragma unroll
    for (int q = 0; q < L::kQueries; ++q) {
      float highest = scores[0][q];
#pragma unroll
      for (int i = 1; i < kAhead; ++i) highest = fmaxf(highest, scores[i][q]);
      sums[q].raise(highest);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float weight = share_of<T>(scores[i][q], sums[q].maximum);
        sums[q].total += weight;
#pragma unroll
        for (int k = 0; k < kElements; ++k) {
          sums[q].values[k] = fmaf(weight, value[i][k / N].at(k % N), sums[q].values[k]);
        }
      }
    }
  }

  // The lanes of a warp that have the same columns, then the warps of the block.
  __shared__ Parts<L> of_warps[kWarps], of_block;
#pragma unroll
  for (int q = 0; q < L::kQueries; ++q) {
    float highest = sums[q].maximum;
#pragma unroll
    for (int offset = kWarp / 2; offset >= L::kLanes; offset /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, offset));
    }
    sums[q].raise(highest);
#pragma unroll
    for (int offset = kWarp / 2; offset >= L::kLanes; offset /= 2) {
      sums[q].total += __shfl_xor_sync(0xffffffff, sums[q].total, offset);
#pragma unroll
      for (int k = 0; k < kElements; ++k) sums[q].values[k] += __shfl_xor_sync(0xffffffff, sums[q].values[k], offset);
    }
    if (thread % kWarp >= L::kLanes) continue;
    of_warps[warp].maximum[q] = sums[q].maximum, of_warps[warp].total[q] = sums[q].total;
#pragma unroll
    for (int k = 0; k < kElements; ++k) of_warps[warp].values[q][column_of(k / N) + k % N] = sums[q].values[k];
  }
  __syncthreads();
  const auto add = [&](int count, auto part_at, int q, int column, float highest, float& total) {
    float sum = 0.0f;
    for (int i = 0; i < count; ++i) highest = fmaxf(highest, part_at(i).maximum[q]);
    for (int i = 0; i < count; ++i) {
      const float factor = share_of<T>(part_at(i).maximum[q], highest);
      total += factor * part_at(i).total[q];
      sum += factor * part_at(i).values[q][column];
    }
    return Sum<T, 1>{highest, total, {sum}};
  };
  for (int i = thread; i < L::kQueries * width; i += kWarps * kWarp) {
    const int q = i / width, column = i % width;
    float total = 0.0f;
    const Sum<T, 1> sum = add(
        kWarps, [&](int w) -> const Parts<L>& { return of_warps[w]; }, q, column, -INFINITY, total);
    of_block.maximum[q] = sum.maximum, of_block.total[q] = sum.total;  // the same for all columns
    of_block.values[q][column] = sum.values[0];
  }
  cluster.sync();
  for (int i = static_cast<int>(blockIdx.x) * kWarps * kWarp + thread; i < queries * width;
       i += kBlocks * kWarps * kWarp) {
    const int q = i / width, column = i % width, head = group * per_group + first_query + q;
    const bool has_sink = a.sinks != nullptr;
    const float sink = has_sink ? to_float(static_cast<const T*>(a.sinks)[head]) : -INFINITY;
    float total = 0.0f;
    const auto part_at = [&](unsigned rank) -> const Parts<L>& { return *cluster.map_shared_rank(&of_block, rank); };
    const Sum<T, 1> sum = add(kBlocks, part_at, q, column, sink, total);
    const float whole = sum.total + share_of<T>(sink, sum.maximum);
    static_cast<T*>(a.y)[(row * a.heads + head) * width + column] = from_float<T>(sum.values[0] / whole);
  }
  cluster.sync();  // the other blocks read of_block
}

template <class L>
cudaError_t launch_layout(const CachedAttention& a, cudaStream_t stream) {
  const int parts_of_group = ceil_divide(a.heads / a.key_value_heads, L::kQueries);
  const dim3 blocks(kBlocks, static_cast<unsigned>(a.key_value_heads * parts_of_group), static_cast<unsigned>(a.batch));
  return launch_overlapped_clusters(cached_attention_kernel<L>, blocks, kBlocks, kWarps * kWarp, 0, stream, a);
}

template <class T, int kLanes, int kVectors>
cudaError_t launch_width(const CachedAttention& a, cudaStream_t stream) {
  switch (a.heads / a.key_value_heads) {
    case 1:
      return launch_layout<Layout<T, kLanes, kVectors, 1>>(a, stream);
    case 2:
      return launch_layout<Layout<T, kLanes, kVectors, 2>>(a, stream);
    default:
      return launch_layout<Layout<T, kLanes, kVectors, 4>>(a, stream);
  }
}

}  // namespace

cudaError_t launch_cached_attention(CudaType type, const CachedAttention& a, cudaStream_t stream) {
  if (a.batch == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    const int vectors = a.head_width / kVectorWidth<T>;
    if (vectors <= 8) return launch_width<T, 8, 1>(a, stream);
    if (vectors <= 16) return launch_width<T, 16, 1>(a, stream);
    if (vectors <= 32) return launch_width<T, 32, 1>(a, stream);
    if constexpr (sizeof(T) == 4) return launch_width<T, 32, 2>(a, stream);
    return cudaErrorInvalidValue;
  });
}

}  // namespace strata::kernels
