// SPDX-License-Identifier: MIT
// The elementwise kernels of linear: activation gradient and bias gradient, before the products of the backward.
#include <algorithm>

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/linear/linear_cuda.h"

namespace strata::kernels {
namespace {

// A block is a tile of 32 columns of threads and 8 rows. Each thread handles the same N adjacent columns in all rows of
// the block.
constexpr int kColumnThreads = 32, kRowThreads = 8;
// Numbers of row blocks. Together with the column blocks of a usual width there are several blocks for each of an
// H100's 132 multiprocessors, so narrow widths get more row blocks. A width of 256 has one column block: 128 blocks
// read 169,343 rows of it at 1.4 TB/s.
constexpr int64_t kWideRowBlocks = 128, kWideColumnBlocks = 8, kMostTimes = 4, kColumnsOfBlock = 256;

dim3 threads() { return dim3(kColumnThreads, kRowThreads); }

int64_t row_blocks(int64_t rows, int64_t width) {
  const int64_t times = kWideColumnBlocks / ceil_divide(std::max<int64_t>(width, 1), kColumnsOfBlock);
  return std::min(ceil_divide<int64_t>(rows, kRowThreads), kWideRowBlocks * std::clamp<int64_t>(times, 1, kMostTimes));
}

dim3 blocks(int64_t rows, int64_t width, int vector) {
  const int64_t columns = static_cast<int64_t>(kColumnThreads) * vector;
  return dim3(static_cast<unsigned>(ceil_divide(width, columns)), static_cast<unsigned>(row_blocks(rows, width)));
}

// The first column of this thread.
template <int N>
__device__ int64_t first_column() {
  return (static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x) * N;
}

__device__ int64_t first_row() { return static_cast<int64_t>(blockIdx.y) * kRowThreads + threadIdx.y; }
__device__ int64_t row_step() { return static_cast<int64_t>(gridDim.y) * kRowThreads; }

template <Activation kKind, class T, int N>
__global__ void activation_gradient_kernel(T* grad, float* partials, const T* grad_y, const T* pre_activation,
                                           int64_t rows, int64_t width) {
  using Chunk = Vector<T, N>;
  const int64_t column = first_column<N>();
  const bool inside = column < width;
  float sums[N] = {};
  // Rows that a thread loads before it adds them. With an activation two rows would be slower: 1.23 instead of 1.09 ms
  // for the backward of 65536 x 768 -> 3072.
  constexpr int kAhead = kKind == Activation::none ? 4 : 1;
  for (int64_t first = first_row(); inside && first < rows; first += kAhead * row_step()) {
    Chunk upper[kAhead], at[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t row = first + i * row_step();
      if (row >= rows) continue;
      upper[i] = *reinterpret_cast<const Chunk*>(grad_y + row * width + column);
      if constexpr (kKind != Activation::none) {
        at[i] = *reinterpret_cast<const Chunk*>(pre_activation + row * width + column);
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t row = first + i * row_step();
      if (row >= rows) continue;
      if constexpr (kKind == Activation::none) {
        for (int k = 0; k < N; ++k) sums[k] += to_float(upper[i].elements[k]);
      } else {
        Chunk result;
        for (int k = 0; k < N; ++k) {
          const float slope = activate_derivative<kKind, T>(to_float(at[i].elements[k]));
          const float value = to_float(upper[i].elements[k]) * slope;
          sums[k] += value;
          result.elements[k] = from_float<T>(value);
        }
        *reinterpret_cast<Chunk*>(grad + row * width + column) = result;
      }
    }
  }
  if (partials == nullptr) return;
  __shared__ float parts[kRowThreads][kColumnThreads * N];
  for (int k = 0; k < N; ++k) parts[threadIdx.y][threadIdx.x * N + k] = sums[k];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y) * kColumnThreads + static_cast<int>(threadIdx.x);
  if (thread >= kColumnThreads * N) return;
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kColumnThreads * N + thread;
  if (place >= width) return;
  float sum = 0.0f;
  for (int i = 0; i < kRowThreads; ++i) sum += parts[i][thread];
  partials[blockIdx.y * width + place] = sum;
}

// A block sums 32 columns with 32 threads per column. Each thread adds a part of the rows of partials, and these sums
// are added in a fixed order. (With one thread per column 128 rows took 18 us, 3.4 of the 177 ms of a step of GPT-2 XL;
// with eight threads 512 rows took 26 us.)
constexpr int kSumThreads = 32;

template <class T>
__global__ void __launch_bounds__(kColumnThreads* kSumThreads)
    bias_gradient_kernel(T* grad_bias, bool add, const float* partials, int64_t count, int64_t width) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  const bool inside = column < width;
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t i = threadIdx.y; inside && i < count; i += kSumThreads) sum += partials[i * width + column];
  __shared__ float parts[kSumThreads][kColumnThreads];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || !inside) return;
  for (int i = 1; i < kSumThreads; ++i) sum += parts[i][threadIdx.x];
  grad_bias[column] = from_float<T>(add ? to_float(grad_bias[column]) + sum : sum);
}

template <Activation kKind>
struct Kind {
  static constexpr Activation kValue = kKind;
};

// Calls visit with the activation as a compile-time constant.
template <class Visit>
cudaError_t visit_kind(Activation activation, Visit visit) {
  switch (activation) {
    case Activation::none:
      return visit(Kind<Activation::none>{});
    case Activation::gelu:
      return visit(Kind<Activation::gelu>{});
    case Activation::gelu_tanh:
      return visit(Kind<Activation::gelu_tanh>{});
    case Activation::relu:
      return visit(Kind<Activation::relu>{});
    case Activation::silu:
      break;
  }
  return cudaErrorInvalidValue;
}

// True if rows can be read as 16-byte vectors at all of these pointers. A null pointer counts as aligned.
template <class T, class... Pointers>
bool in_vectors(int64_t width, const Pointers*... pointers) {
  return width % kVectorWidth<T> == 0 && are_aligned(pointers...);
}

}  // namespace

int64_t linear_backward_partials(int64_t rows, int64_t width) { return row_blocks(rows, width); }

cudaError_t launch_activation_gradient(CudaType type, void* grad, float* partials, const void* grad_y,
                                       const void* pre_activation, Activation activation, int64_t rows, int64_t width,
                                       cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    return visit_kind(activation, [&]<class K>(K) {
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        activation_gradient_kernel<K::kValue, T, N><<<blocks(rows, width, N), threads(), 0, stream>>>(
            static_cast<T*>(grad), partials, static_cast<const T*>(grad_y), static_cast<const T*>(pre_activation), rows,
            width);
        return cudaGetLastError();
      };
      return in_vectors<T>(width, grad, grad_y, pre_activation) ? launch(std::integral_constant<int, kVectorWidth<T>>{})
                                                                : launch(std::integral_constant<int, 1>{});
    });
  });
}

cudaError_t launch_bias_gradient(CudaType type, void* grad_bias, bool add, const float* partials, int64_t count,
                                 int64_t width, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    bias_gradient_kernel<T>
        <<<static_cast<unsigned>(ceil_divide<int64_t>(width, kColumnThreads)), dim3(kColumnThreads, kSumThreads), 0,
           stream>>>(static_cast<T*>(grad_bias), add, partials, count, width);
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
