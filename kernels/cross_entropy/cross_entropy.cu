// SPDX-License-Identifier: MIT
// cross_entropy: the blocks of a cluster hold one row of logits in their registers, from the one read to the one write.
// N rows, V classes
#include <cooperative_groups.h>

#include <algorithm>

#include "kernels/activation_math.cuh"
#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/device_utils.cuh"

namespace strata::kernels {
#ifdef STRATA_TUNE
extern int tune_vectors, tune_threads, tune_blocks;
#endif
namespace {

namespace cg = cooperative_groups;

constexpr float kLog2E = 1.44269504f;

// What is known of a part of a row: the sum of exp(x - largest), so that nothing overflows, and the sum of x.
struct Part {
  float largest, exponentials, logits;
};

__device__ Part merge(const Part& a, const Part& b) {
  const float largest = fmaxf(a.largest, b.largest);
  const float base = largest == -INFINITY ? 0.0f : largest;  // exp2f(-inf - base) is 0, not NaN
  return {largest,
          a.exponentials * exp2f((a.largest - base) * kLog2E) + b.exponentials * exp2f((b.largest - base) * kLog2E),
          a.logits + b.logits};
}

__device__ Part warp_merge(Part part) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    part = merge(part, {__shfl_xor_sync(0xffffffff, part.largest, offset),
                        __shfl_xor_sync(0xffffffff, part.exponentials, offset),
                        __shfl_xor_sync(0xffffffff, part.logits, offset)});
  }
  return part;
}

__device__ constexpr Part nothing() { return {-INFINITY, 0.0f, 0.0f}; }

// The whole block's part, in every thread.
__device__ Part block_merge(Part part) {
  __shared__ Part warps[kWarp];
  part = warp_merge(part);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp_merge(lane < static_cast<int>(blockDim.x) / kWarp ? warps[lane] : nothing());
}

template <class T>
__device__ float exp2_of(float x) {
  return kIsHalf<T> ? fast_exp2(x) : exp2f(x);
}

// Loss and gradient of a row from its sums.
struct Row {
  float log_total;       // log of the sum of exp(x)
  float offset, factor;  // gradient = factor * (exp2(x * log2(e) - offset) - everywhere), minus at_target for one class
  float everywhere, at_target;
};

__device__ Row finish(const Part& part, const CrossEntropyArguments& a) {
  const float log_total = part.largest + logf(part.exponentials);
  const float factor = *a.scale;
  return {log_total, log_total * kLog2E, factor, a.label_smoothing / static_cast<float>(a.classes),
          factor * (1.0f - a.label_smoothing)};
}

__device__ float row_loss(const Row& row, float target_logit, float sum_of_logits, const CrossEntropyArguments& a) {
  return row.log_total - (1.0f - a.label_smoothing) * target_logit - row.everywhere * sum_of_logits;
}

template <class T>
__device__ float target_logit(const T* logits, int64_t target, const CrossEntropyArguments& a) {
  if (target < 0 || target >= a.classes) __trap();
  return to_float(logits[target]);
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kVectors <= 4 ? 1024 : 512, kVectors <= 4   ? 1
                                                              : kVectors <= 8 ? 2
                                                                              : 1)
    cluster_kernel(const CrossEntropyArguments a) {
  constexpr int N = kVectorWidth<T>;
  const cg::cluster_group cluster = cg::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks()), rank = static_cast<int>(cluster.block_rank());
  const int64_t row = blockIdx.x / blocks;
  const int vectors_in_row = static_cast<int>(a.classes / N);
  const int first = rank * blockDim.x + threadIdx.x, step = blocks * blockDim.x;
  const int64_t target = a.targets[row];
  uint4* gradient = static_cast<uint4*>(a.gradient) + row * vectors_in_row;
  if (target == a.ignore_index) {
    if (a.gradient != nullptr) {
      for (int i = first; i < vectors_in_row; i += step) __stcs(gradient + i, uint4{});
    }
    if (first == 0) a.row_losses[row] = 0.0f;
    return;
  }
  const T* logits = static_cast<const T*>(a.logits) + row * a.classes;
  Packed<T> x[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = first + v * step;
    if (i < vectors_in_row) x[v].words = __ldcs(reinterpret_cast<const uint4*>(logits) + i);
  }
  const float logit_of_target = first == 0 ? target_logit(logits, target, a) : 0.0f;
  Part part = nothing();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (first + v * step < vectors_in_row) {
#pragma unroll
      for (int k = 0; k < N; ++k) part.largest = fmaxf(part.largest, x[v].at(k));
    }
  }
  const float base = part.largest == -INFINITY ? 0.0f : part.largest * kLog2E;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    x[v].stay_packed();
    if (first + v * step < vectors_in_row) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        part.exponentials += exp2_of<T>(fmaf(x[v].at(k), kLog2E, -base));
        part.logits += x[v].at(k);
      }
    }
  }
  part = block_merge(part);
  if (blocks > 1) {
    __shared__ Part of_block;
    if (threadIdx.x == 0) of_block = part;
    cluster.sync();
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    part = warp_merge(lane < blocks ? *cluster.map_shared_rank(&of_block, lane) : nothing());
    cluster.sync();  // nobody overwrites a logit or leaves before everybody has read
  } else {
    __syncthreads();
  }
  const Row result = finish(part, a);
  if (first == 0) a.row_losses[row] = row_loss(result, logit_of_target, part.logits, a);
  if (a.gradient == nullptr) return;
  const int target_vector = static_cast<int>(target / N), target_element = static_cast<int>(target % N);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = first + v * step;
    if (i >= vectors_in_row) continue;
    x[v].stay_packed();
    x[v].fill([&](int k) {
      const float gradient = result.factor * (exp2_of<T>(fmaf(x[v].at(k), kLog2E, -result.offset)) - result.everywhere);
      return i == target_vector && k == target_element ? gradient - result.at_target : gradient;
    });
    __stcs(gradient + i, x[v].words);
  }
}

// Any number of classes and any alignment: a block reads the row twice.
template <class T>
__global__ void any_kernel(const CrossEntropyArguments a) {
  const int64_t row = blockIdx.x, target = a.targets[row];
  const T* logits = static_cast<const T*>(a.logits) + row * a.classes;
  T* gradient = static_cast<T*>(a.gradient) + row * a.classes;
  if (target == a.ignore_index) {
    if (a.gradient != nullptr) {
      for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) gradient[i] = from_float<T>(0.0f);
    }
    if (threadIdx.x == 0) a.row_losses[row] = 0.0f;
    return;
  }
  const float logit_of_target = threadIdx.x == 0 ? target_logit(logits, target, a) : 0.0f;
  Part part = nothing();
  for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) {
    const float x = to_float(logits[i]);
    if (x > part.largest) {
      part.exponentials *= exp2f((part.largest - x) * kLog2E);
      part.largest = x;
    }
    if (x != -INFINITY) part.exponentials += exp2f((x - part.largest) * kLog2E);
    part.logits += x;
  }
  part = block_merge(part);
  __syncthreads();  // nobody overwrites the target's logit before it has been read
  const Row result = finish(part, a);
  if (threadIdx.x == 0) a.row_losses[row] = row_loss(result, logit_of_target, part.logits, a);
  if (a.gradient == nullptr) return;
  for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) {
    float value = result.factor * (exp2f(fmaf(to_float(logits[i]), kLog2E, -result.offset)) - result.everywhere);
    if (i == target) value -= result.at_target;
    gradient[i] = from_float<T>(value);
  }
}

constexpr int kSumThreads = 1024;

// loss = scale * sum of the rows' losses, in fp64 and in a fixed order.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(float* loss, const float* row_losses, int64_t rows, const float* scale) {
  __shared__ double sums[kSumThreads];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < rows; i += kSumThreads) sum += row_losses[i];
  sums[threadIdx.x] = sum;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = static_cast<float>(sums[0] * *scale);
}

template <class T, int kVectors>
cudaError_t launch_cluster(const CrossEntropyArguments& a, int blocks, int threads, cudaStream_t stream) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(a.rows * blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, cluster_kernel<T, kVectors>, a);
}

}  // namespace

cudaError_t launch_cross_entropy(const CrossEntropyArguments& a, cudaStream_t stream) {
  if (a.rows > 0) {
    const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
      constexpr int kVectors = 8, kMaxThreads = 512, kMaxBlocks = 8;
      const int64_t vectors = a.classes / kVectorWidth<T>;
      const bool whole = a.classes % kVectorWidth<T> == 0 && are_aligned(a.logits, a.gradient);
#ifdef STRATA_TUNE
      if (tune_vectors > 0) {
        const int threads = ceil_divide<int>(vectors, tune_blocks * tune_vectors * kWarp) * kWarp;
        if (tune_vectors == 2) return launch_cluster<T, 2>(a, tune_blocks, threads, stream);
        if (tune_vectors == 4) return launch_cluster<T, 4>(a, tune_blocks, threads, stream);
        if (tune_vectors == 8) return launch_cluster<T, 8>(a, tune_blocks, threads, stream);
        if (tune_vectors == 16) return launch_cluster<T, 16>(a, tune_blocks, threads, stream);
      }
#endif
      if (!whole || vectors > kVectors * kMaxThreads * kMaxBlocks || a.rows * kMaxBlocks >= (int64_t{1} << 31)) {
        any_kernel<T><<<static_cast<unsigned>(a.rows), 1024, 0, stream>>>(a);
        return cudaGetLastError();
      }
      int blocks = 1;
      while (vectors > blocks * kVectors * kMaxThreads) blocks *= 2;
      const int threads = static_cast<int>(ceil_divide<int64_t>(vectors, blocks * kVectors * kWarp)) * kWarp;
      return launch_cluster<T, kVectors>(a, blocks, threads, stream);
    });
    if (status != cudaSuccess) return status;
  }
  sum_kernel<<<1, kSumThreads, 0, stream>>>(a.loss, a.row_losses, a.rows, a.scale);
  return cudaGetLastError();
}

}  // namespace strata::kernels
