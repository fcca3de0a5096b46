// SPDX-License-Identifier: MIT
// sum_of_squares: each block sums the squares of one piece of one tensor in fp64; a last block adds the sums of the
// pieces.
#include "kernels/cuda/device_utils.cuh"
#include "kernels/sum_of_squares/sum_of_squares_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 512;

// Returns the sum over the block to thread 0, always added in the same order.
__device__ double block_sum(double value) {
  __shared__ double warps[kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / kWarp ? warps[threadIdx.x] : 0.0;
  if (threadIdx.x < kWarp) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  }
  return value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) squares_kernel(const SquaredTensors tensors, double* partials) {
  const int64_t piece = blockIdx.x;
  int tensor = 0;  // the last tensor whose first piece is not after this piece
  for (int step = 128; step > 0; step /= 2) {
    if (tensor + step < tensors.count && tensors.first_piece[tensor + step] <= piece) tensor += step;
  }
  const int64_t start = (piece - tensors.first_piece[tensor]) * kSquaredPiece;
  const T* data = static_cast<const T*>(tensors.data[tensor]) + start;
  const int64_t rest = tensors.elements[tensor] - start;
  const int count = static_cast<int>(rest < kSquaredPiece ? rest : kSquaredPiece);
  constexpr int N = kVectorWidth<T>;
  const int vectors = reinterpret_cast<uintptr_t>(data) % 16 == 0 ? count / N : 0;
  double sum = 0.0;
#pragma unroll 4
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const Packed<T> values = {__ldcs(reinterpret_cast<const uint4*>(data) + i)};
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const double value = values.at(k);
      sum = fma(value, value, sum);
    }
  }
  for (int i = vectors * N + threadIdx.x; i < count; i += kThreads) {
    const double value = to_float(data[i]);
    sum = fma(value, value, sum);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[piece] = sum;
}

__global__ void __launch_bounds__(kThreads) total_kernel(float* total, const double* partials, int64_t count) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = static_cast<float>(sum);
}

}  // namespace

cudaError_t launch_sums_of_squares(CudaType type, const SquaredTensors& tensors, double* partials,
                                   cudaStream_t stream) {
  if (tensors.pieces == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    squares_kernel<T><<<static_cast<unsigned>(tensors.pieces), kThreads, 0, stream>>>(tensors, partials);
    return cudaGetLastError();
  });
}

cudaError_t launch_sum_of_partials(float* total, const double* partials, int64_t count, cudaStream_t stream) {
  total_kernel<<<1, kThreads, 0, stream>>>(total, partials, count);
  return cudaGetLastError();
}

}  // namespace strata::kernels
