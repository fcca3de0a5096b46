// SPDX-License-Identifier: MIT
// cross_entropy: reads a row of logits once and writes its gradient over it. Short rows are held in registers, long
// rows in the shared memory of one block or of a cluster of blocks; portable code reads long rows twice.
#include <algorithm>

#include "kernels/cross_entropy/cross_entropy_ring.cuh"
#include "kernels/cross_entropy/cross_entropy_rows.cuh"
#include "kernels/cuda/code.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {
namespace {

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

template <class T, int kLaneClasses>
cudaError_t launch_few_classes(const CrossEntropyArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_divide<int64_t>(a.rows * kWarp, kFewThreads));
  few_classes_kernel<T, kLaneClasses><<<blocks, kFewThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

struct Times {
  const float* factor;
  __device__ float operator()(float x) const { return x * __ldg(factor); }
};

constexpr int kScaleThreads = 256;

// gradient *= factor. Blocks are as many as run at once, because those of a factor of 1, which is usual, only start.
template <class T>
__global__ void __launch_bounds__(kScaleThreads)
    scale_kernel(T* gradient, int64_t vectors, int64_t count, const float* factor) {
  const float scale = *factor;
  if (scale == 1.0f) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kScaleThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kScaleThreads;
  for (int64_t i = first; i < vectors; i += step) {
    Packed<T> x;
    x.words = __ldcs(reinterpret_cast<const uint4*>(gradient) + i);
    x.fill([&](int k) { return x.at(k) * scale; });
    __stcs(reinterpret_cast<uint4*>(gradient) + i, x.words);
  }
  for (int64_t i = vectors * kVectorWidth<T> + first; i < count; i += step) {
    gradient[i] = from_float<T>(to_float(gradient[i]) * scale);
  }
}

template <class T>
cudaError_t scale_in_place(T* gradient, const float* factor, int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const int64_t vectors = are_aligned(gradient) ? count / kVectorWidth<T> : 0;
  const int64_t blocks = std::min<int64_t>(ceil_divide<int64_t>(count, kScaleThreads), 8 * multiprocessors());
  scale_kernel<T><<<static_cast<unsigned>(blocks), kScaleThreads, 0, stream>>>(gradient, vectors, count, factor);
  return cudaGetLastError();
}

}  // namespace

namespace STRATA_THIS_CODE {

cudaError_t launch_cross_entropy(const CrossEntropyArguments& a, cudaStream_t stream) {
  if (a.rows > 0) {
    const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
      if (a.columns <= kWarp) return launch_few_classes<T, 1>(a, stream);
      if (a.columns <= 2 * kWarp) return launch_few_classes<T, 2>(a, stream);
      if (a.columns <= 8 * kWarp) return launch_few_classes<T, 8>(a, stream);
      const int64_t vectors = a.columns / kVectorWidth<T>;
      const bool whole = a.columns % kVectorWidth<T> == 0 && are_aligned(a.logits, a.gradient);
      if (whole && vectors <= kRegisterVectors * kMaxRowThreads) {
        const int64_t threads = ceil_divide<int64_t>(vectors, kRegisterVectors * kWarp) * kWarp;
        register_kernel<T><<<static_cast<unsigned>(a.rows), static_cast<unsigned>(threads), 0, stream>>>(a);
        return cudaGetLastError();
      }
      if constexpr (kThisCode == Code::hopper) {
        const int blocks = whole ? cluster_blocks_for(vectors) : 0;
        if (blocks > 0) return launch_ring<T>(a, blocks, stream);
      } else if (whole && a.columns <= INT32_MAX) {
        twice_kernel<T><<<static_cast<unsigned>(a.rows), kTwiceThreads, 0, stream>>>(a);
        return cudaGetLastError();
      }
      any_kernel<T><<<static_cast<unsigned>(a.rows), 1024, 0, stream>>>(a);
      return cudaGetLastError();
    });
    if (status != cudaSuccess) return status;
  }
  sum_kernel<<<1, kSumThreads, 0, stream>>>(a.loss, a.row_losses, a.rows, a.scale);
  return cudaGetLastError();
}

cudaError_t launch_cross_entropy_backward(CudaType type, void* result, const void* gradient, const float* factor,
                                          int64_t count, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    if (result == gradient) return scale_in_place<T>(static_cast<T*>(result), factor, count, stream);
    return launch_elementwise<T>(result, count, stream, Times{factor}, gradient);
  });
}

}  // namespace STRATA_THIS_CODE
}  // namespace strata::kernels
