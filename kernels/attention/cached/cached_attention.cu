// SPDX-License-Identifier: MIT
// Attention of one token over the keys and values of a cache. A cluster of blocks shares the keys of a row and a few
// query heads of one group, and adds up its parts through shared memory, as in split softmax (FlashDecoding, Dao et al.
// 2023).
#include <cooperative_groups.h>

#include <cmath>
#include <utility>

#include "kernels/activation/activation_math.cuh"
#include "kernels/attention/cached/cached_attention_cuda.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {
namespace {

constexpr int kMostClusterBlocks = 8;
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kWarps = 8;  // warps of a block
constexpr int kThreads = kWarps * kWarp;

// A head of at most kWidth elements is spread over kLanes lanes with kVectors vectors each. A block has kQueries heads
// of one group. With more than two there are not enough registers for the kAhead keys that a thread loads at once.
// So a cluster of 8 blocks loads all keys of 1024 positions, with heads of 64 elements of 16 bits, before it waits for
// the kernel before it.
template <class Type, int kLanesOfHead, int kVectorsOfLane, int kQueriesOfBlock>
struct Layout {
  using T = Type;
  static constexpr int N = kVectorWidth<T>, kLanes = kLanesOfHead, kVectors = kVectorsOfLane,
                       kQueries = kQueriesOfBlock, kWidth = kLanes * kVectors * N;
  static constexpr int kAhead = kVectors == 1 ? 4 : 2;
};

// exp(x - maximum), and 0 if there is no key yet. A softmax subtracts its maximum, so that no exponential overflows.
template <class T>
__device__ float shifted_exponential(float x, float maximum) {
  return x == -INFINITY ? 0.0f : exponential<T>(x - maximum);
}

// The softmax of some keys for one query, before it is divided by the sum.
template <class T, int kElements>
struct RunningSoftmax {
  float maximum = -INFINITY, total = 0.0f, values[kElements] = {};

  // Rescales the sums to the larger of two maxima, as in online softmax.
  __device__ void rescale_to(float other) {
    const float higher = fmaxf(maximum, other), factor = shifted_exponential<T>(maximum, higher);
    maximum = higher;
    total *= factor;
#pragma unroll
    for (int k = 0; k < kElements; ++k) values[k] *= factor;
  }
};

template <class L>
struct PartialSoftmaxes {
  float maximum[L::kQueries], total[L::kQueries], values[L::kQueries][L::kWidth];
};

// The softmax of all parts for one query, and one column of its values.
template <class L>
__device__ RunningSoftmax<typename L::T, 1> merge(const PartialSoftmaxes<L>* parts, int count, int q, int column,
                                                  float maximum) {
  using T = typename L::T;
  RunningSoftmax<T, 1> merged{maximum};
  for (int i = 0; i < count; ++i) merged.maximum = fmaxf(merged.maximum, parts[i].maximum[q]);
  for (int i = 0; i < count; ++i) {
    const float factor = shifted_exponential<T>(parts[i].maximum[q], merged.maximum);
    merged.total += factor * parts[i].total[q];
    merged.values[0] += factor * parts[i].values[q][column];
  }
  return merged;
}

// blockIdx: x the block of the cluster, y the group and its part, z the row.
template <class L>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor) cached_attention_kernel(const CachedAttention a) {
  using T = typename L::T;
  constexpr int N = L::N, kAhead = L::kAhead, kElements = L::kVectors * N, kKeysOfWarp = kWarp / L::kLanes;
  constexpr int kKeysOfBlock = kWarps * kKeysOfWarp;
  namespace groups = cooperative_groups;
  const groups::cluster_group cluster = groups::this_cluster();
  auto arrival = cluster.barrier_arrive();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % L::kLanes;
  const int width = a.head_width, per_group = a.heads / a.key_value_heads;
  const int parts_of_group = static_cast<int>(gridDim.y) / a.key_value_heads;
  const int group = static_cast<int>(blockIdx.y) / parts_of_group, part = static_cast<int>(blockIdx.y) % parts_of_group;
  const int first_query = part * L::kQueries, queries = min(L::kQueries, per_group - first_query);
  const int64_t row = blockIdx.z, position = a.positions[row], slot = position % a.slots;

  // The keys of this block. This thread takes every kKeysOfBlock-th of them.
  const int64_t stored = min(position + 1, a.slots);
  const int64_t share = (static_cast<unsigned>(stored) + gridDim.x - 1) / gridDim.x;
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

  // The queries of this block, the token's own key, and its value: two elements a half apart for each thread.
  __shared__ float query[L::kQueries][L::kWidth];
  alignas(16) __shared__ T fresh_key[L::kWidth], fresh_value[L::kWidth];
  const T* token = static_cast<const T*>(a.qkv) + row * (a.heads + 2 * a.key_value_heads) * width;
  const int half = width / 2;
  for (int i = thread; i < (L::kQueries + 2) * half; i += kThreads) {
    const int q = i / half, pair = i % half;
    const bool is_key = q == L::kQueries, is_value = q == L::kQueries + 1;
    const int head = is_value ? a.heads + a.key_value_heads + group
                     : is_key ? a.heads + group
                              : group * per_group + first_query + min(q, queries - 1);
    T first_part = token[head * width + pair], second_part = token[head * width + pair + half];
    if (a.cosine != nullptr && !is_value) {
      const float c = a.cosine[row * half + pair], s = a.sine[row * half + pair];
      const float x = to_float(first_part), y = to_float(second_part);
      first_part = from_float<T>(x * c - y * s), second_part = from_float<T>(y * c + x * s);
    }
    if (!is_key && !is_value) {
      query[q][pair] = to_float(first_part) * a.scale, query[q][pair + half] = to_float(second_part) * a.scale;
      continue;
    }
    T* fresh = is_key ? fresh_key : fresh_value;
    fresh[pair] = first_part, fresh[pair + half] = second_part;
    if (slot < begin || slot >= end || part != 0) continue;
    T* stored_head = keys + slot * width + (is_key ? 0 : a.values_offset);
    stored_head[pair] = first_part, stored_head[pair + half] = second_part;
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

  RunningSoftmax<T, kElements> softmaxes[L::kQueries];
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
          key[i][v].words = *reinterpret_cast<const uint4*>(fresh_key + column_of(v));
          value[i][v].words = *reinterpret_cast<const uint4*>(fresh_value + column_of(v));
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
      softmaxes[q].rescale_to(highest);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float weight = shifted_exponential<T>(scores[i][q], softmaxes[q].maximum);
        softmaxes[q].total += weight;
#pragma unroll
        for (int k = 0; k < kElements; ++k) {
          softmaxes[q].values[k] = fmaf(weight, value[i][k / N].at(k % N), softmaxes[q].values[k]);
        }
      }
    }
  }

  // The lanes of a warp that have the same columns, then the warps of the block.
  __shared__ PartialSoftmaxes<L> warp_parts[kWarps], block_parts[kMostClusterBlocks];
#pragma unroll
  for (int q = 0; q < L::kQueries; ++q) {
    float highest = softmaxes[q].maximum;
#pragma unroll
    for (int offset = kWarp / 2; offset >= L::kLanes; offset /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, offset));
    }
    softmaxes[q].rescale_to(highest);
#pragma unroll
    for (int offset = kWarp / 2; offset >= L::kLanes; offset /= 2) {
      softmaxes[q].total += __shfl_xor_sync(0xffffffff, softmaxes[q].total, offset);
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        softmaxes[q].values[k] += __shfl_xor_sync(0xffffffff, softmaxes[q].values[k], offset);
      }
    }
    if (thread % kWarp >= L::kLanes) continue;
    warp_parts[warp].maximum[q] = softmaxes[q].maximum, warp_parts[warp].total[q] = softmaxes[q].total;
#pragma unroll
    for (int k = 0; k < kElements; ++k) warp_parts[warp].values[q][column_of(k / N) + k % N] = softmaxes[q].values[k];
  }
  __syncthreads();
  // Each block puts its part into the shared memory of the first one, which must have started.
  cluster.barrier_wait(std::move(arrival));
  PartialSoftmaxes<L>& block_part = *cluster.map_shared_rank(&block_parts[blockIdx.x], 0);
  for (int i = thread; i < L::kQueries * width; i += kThreads) {
    const int q = i / width, column = i % width;
    const RunningSoftmax<T, 1> merged = merge(warp_parts, kWarps, q, column, -INFINITY);
    if (column == 0) block_part.maximum[q] = merged.maximum, block_part.total[q] = merged.total;
    block_part.values[q][column] = merged.values[0];
  }
  cluster.sync();
  if (blockIdx.x != 0) return;
  for (int i = thread; i < queries * width; i += kThreads) {
    const int q = i / width, column = i % width, head = group * per_group + first_query + q;
    const float sink = a.sinks == nullptr ? -INFINITY : to_float(static_cast<const T*>(a.sinks)[head]);
    const RunningSoftmax<T, 1> merged = merge(block_parts, static_cast<int>(gridDim.x), q, column, sink);
    const float whole = merged.total + shifted_exponential<T>(sink, merged.maximum);
    static_cast<T*>(a.y)[(row * a.heads + head) * width + column] = from_float<T>(merged.values[0] / whole);
  }
}

// Many clusters have fewer blocks each, so that all run at once. Otherwise each wave of blocks would wait for its
// loads.
template <class L>
cudaError_t launch_layout(const CachedAttention& a, cudaStream_t stream) {
  const int parts_of_group = ceil_divide(a.heads / a.key_value_heads, L::kQueries);
  const int64_t clusters = a.batch * a.key_value_heads * parts_of_group;
  const int64_t at_once = int64_t{kBlocksPerMultiprocessor} * multiprocessors();
  int cluster = kMostClusterBlocks;
  while (cluster > 1 && cluster * clusters > at_once) cluster /= 2;
  const dim3 blocks(static_cast<unsigned>(cluster), static_cast<unsigned>(a.key_value_heads * parts_of_group),
                    static_cast<unsigned>(a.batch));
  return launch_overlapped_clusters(cached_attention_kernel<L>, blocks, cluster, kThreads, 0, stream, a);
}

template <class T, int kLanes, int kVectors>
cudaError_t launch_width(const CachedAttention& a, cudaStream_t stream) {
  return a.heads == a.key_value_heads ? launch_layout<Layout<T, kLanes, kVectors, 1>>(a, stream)
                                      : launch_layout<Layout<T, kLanes, kVectors, 2>>(a, stream);
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
