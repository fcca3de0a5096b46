// SPDX-License-Identifier: MIT
// A cluster of blocks shares the logits of a row, and reads them in one round of loads. ATen takes four kernels.
#include <cooperative_groups.h>

#include <cmath>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "tools/generation/likeliest_cuda.h"

namespace strata::generation {
namespace {

using namespace kernels;

constexpr int kBlocks = 8, kWarps = 16, kThreads = kWarps * kWarp;
constexpr unsigned kSign = 0x80000000, kNan = 0xffffffff;

// The upper half orders logits as their values, with NaN above all. Of equal logits the first has the largest key.
__device__ uint64_t key_of(float logit, int64_t id) {
  const unsigned bits = __float_as_uint(logit + 0.0f);  // the sum is 0 for -0
  const unsigned order = isnan(logit) ? kNan : bits < kSign ? bits | kSign : ~bits;
  return static_cast<uint64_t>(order) << 32 | ~static_cast<unsigned>(id);
}

__device__ int64_t token_of(uint64_t key, int64_t no_token) {
  const auto order = static_cast<unsigned>(key >> 32);
  const float logit = __uint_as_float(order < kSign ? ~order : order ^ kSign);
  return isfinite(logit) ? static_cast<int64_t>(~static_cast<unsigned>(key)) : no_token;
}

// blockIdx: x the block of the cluster, y the row.
template <class T>
__global__ void __launch_bounds__(kThreads) likeliest_kernel(const LikeliestTokens a) {
  constexpr int N = kVectorWidth<T>;
  const auto cluster = cooperative_groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + thread, step = kBlocks * kThreads;
  wait_for_kernel_before();
  const T* row = static_cast<const T*>(a.logits) + blockIdx.y * a.width;
  const int64_t vectors = reinterpret_cast<uintptr_t>(row) % 16 == 0 ? a.width / N : 0;
  uint64_t best = 0;
#pragma unroll 4
  for (int64_t v = first; v < vectors; v += step) {
    const Packed<T> logits{reinterpret_cast<const uint4*>(row)[v]};
#pragma unroll
    for (int k = 0; k < N; ++k) best = max(best, key_of(logits.at(k), v * N + k));
  }
  for (int64_t id = vectors * N + first; id < a.width; id += step) best = max(best, key_of(to_float(row[id]), id));

  const auto best_of_warp = [](uint64_t key) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) key = max(key, __shfl_xor_sync(0xffffffff, key, offset));
    return key;
  };
  __shared__ uint64_t warp_best[kWarps], block_best[kBlocks];
  best = best_of_warp(best);
  if (thread % kWarp == 0) warp_best[thread / kWarp] = best;
  cluster.sync();  // also because the first block must have started
  if (thread < kWarp) best = best_of_warp(warp_best[thread % kWarps]);
  if (thread == 0) *cluster.map_shared_rank(&block_best[blockIdx.x], 0) = best;
  cluster.sync();
  if (blockIdx.x != 0 || thread >= kWarp) return;
  best = best_of_warp(block_best[thread % kBlocks]);
  if (thread == 0) a.ids[blockIdx.y] = token_of(best, a.no_token);
}

}  // namespace

cudaError_t launch_likeliest(const LikeliestTokens& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    return launch_overlapped_clusters(likeliest_kernel<T>, dim3(kBlocks, static_cast<unsigned>(a.rows)), kBlocks,
                                      kThreads, /*shared_bytes=*/0, stream, a);
  });
}

}  // namespace strata::generation
