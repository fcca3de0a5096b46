// SPDX-License-Identifier: MIT
// rms_norm forward and backward: a block takes a row at a time; the second pass over a row reads it from L1.
#include <algorithm>

#include "kernels/device_utils.cuh"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kMaxThreads = 512;
// Two blocks of 512 threads on each of an H100's 132 multiprocessors.
constexpr int64_t kBackwardBlocks = 264;

template <class T, int N>
__global__ void forward_kernel(T* y, float* rstd, const T* x, const T* weight, int64_t width, float eps) {
  using Chunk = Vector<T, N>;
  const int64_t chunks = width / N, row = blockIdx.x;
  const Chunk* x_row = reinterpret_cast<const Chunk*>(x + row * width);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    const Chunk chunk = x_row[i];
    for (int k = 0; k < N; ++k) sum += to_float(chunk.elements[k]) * to_float(chunk.elements[k]);
  }
  const float scale = rsqrtf(block_sum(sum) / static_cast<float>(width) + eps);
  if (threadIdx.x == 0) rstd[row] = scale;
  const Chunk* weights = reinterpret_cast<const Chunk*>(weight);
  Chunk* y_row = reinterpret_cast<Chunk*>(y + row * width);
  for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    const Chunk chunk = x_row[i], factor = weights[i];
    Chunk result;
    for (int k = 0; k < N; ++k) {
      result.elements[k] = from_float<T>(to_float(chunk.elements[k]) * scale * to_float(factor.elements[k]));
    }
    y_row[i] = result;
  }
}

// grad_x = rstd * (g - x * rstd^2 * mean(g * x)) with g = grad_y * weight. A thread meets the same columns in every
// row: its partial sums of grad_weight = sum of grad_y * x * rstd lie in shared memory, where no other thread touches
// them.
template <class T, int N>
__global__ void backward_kernel(T* grad_x, float* partials, const T* grad_y, const T* x, const T* weight,
                                const float* rstd, int64_t rows, int64_t width) {
  extern __shared__ float sums[];
  using Chunk = Vector<T, N>;
  const int64_t chunks = width / N;
  const Chunk* weights = reinterpret_cast<const Chunk*>(weight);
  for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    for (int k = 0; k < N; ++k) sums[i * N + k] = 0.0f;
  }
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Chunk* x_row = reinterpret_cast<const Chunk*>(x + row * width);
    const Chunk* grad_row = reinterpret_cast<const Chunk*>(grad_y + row * width);
    const float scale = rstd[row];
    float dot = 0.0f;
    for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
      const Chunk value = x_row[i], gradient = grad_row[i], factor = weights[i];
      for (int k = 0; k < N; ++k) {
        const float product = to_float(gradient.elements[k]) * to_float(value.elements[k]);
        dot += product * to_float(factor.elements[k]);
        sums[i * N + k] += product * scale;
      }
    }
    const float mean = block_sum(dot) / static_cast<float>(width) * scale * scale;
    Chunk* result_row = reinterpret_cast<Chunk*>(grad_x + row * width);
    for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
      const Chunk value = x_row[i], gradient = grad_row[i], factor = weights[i];
      Chunk result;
      for (int k = 0; k < N; ++k) {
        const float weighted = to_float(gradient.elements[k]) * to_float(factor.elements[k]);
        result.elements[k] = from_float<T>(scale * (weighted - to_float(value.elements[k]) * mean));
      }
      result_row[i] = result;
    }
  }
  float* partial = partials + blockIdx.x * width;
  for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    for (int k = 0; k < N; ++k) partial[i * N + k] = sums[i * N + k];
  }
}

template <class T>
__global__ void sum_partials_kernel(T* grad_weight, bool add, const float* partials, int64_t count, int64_t width) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  float sum = add ? to_float(grad_weight[column]) : 0.0f;
  for (int64_t i = 0; i < count; ++i) sum += partials[i * width + column];
  grad_weight[column] = from_float<T>(sum);
}

// One thread a vector, in whole warps.
int threads_for(int64_t chunks) {
  const int64_t whole_warps = (chunks + kWarp - 1) / kWarp * kWarp;
  return static_cast<int>(std::min<int64_t>(whole_warps, kMaxThreads));
}

template <class T, int N>
cudaError_t forward(void* y, float* rstd, const void* x, const void* weight, int64_t rows, int64_t width, float eps,
                    cudaStream_t stream) {
  forward_kernel<T, N><<<static_cast<unsigned>(rows), threads_for(width / N), 0, stream>>>(
      static_cast<T*>(y), rstd, static_cast<const T*>(x), static_cast<const T*>(weight), width, eps);
  return cudaGetLastError();
}

template <class T, int N>
cudaError_t backward(void* grad_x, float* partials, const void* grad_y, const void* x, const void* weight,
                     const float* rstd, int64_t rows, int64_t width, cudaStream_t stream) {
  const size_t shared = width * sizeof(float);
  const cudaError_t status = cudaFuncSetAttribute(backward_kernel<T, N>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(shared));
  if (status != cudaSuccess) return status;
  const auto blocks = static_cast<unsigned>(rms_norm_backward_partials(rows));
  backward_kernel<T, N><<<blocks, threads_for(width / N), shared, stream>>>(
      static_cast<T*>(grad_x), partials, static_cast<const T*>(grad_y), static_cast<const T*>(x),
      static_cast<const T*>(weight), rstd, rows, width);
  return cudaGetLastError();
}

template <class T>
cudaError_t sum_partials(void* grad_weight, bool add, const float* partials, int64_t count, int64_t width,
                         cudaStream_t stream) {
  constexpr int kThreads = 128;
  sum_partials_kernel<T><<<static_cast<unsigned>((width + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      static_cast<T*>(grad_weight), add, partials, count, width);
  return cudaGetLastError();
}

// Calls visit with a zero of the element type.
template <class Visit>
cudaError_t visit_type(CudaType type, Visit visit) {
  switch (type) {
    case CudaType::float32:
      return visit(float{});
    case CudaType::bfloat16:
      return visit(__nv_bfloat16{});
    case CudaType::float16:
      return visit(__half{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_rms_norm_forward(CudaType type, void* y, float* rstd, const void* x, const void* weight,
                                    int64_t rows, int64_t width, float eps, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    constexpr int N = kVectorWidth<T>;
    const bool whole = width % N == 0 && is_aligned(x) && is_aligned(y) && is_aligned(weight);
    return whole ? forward<T, N>(y, rstd, x, weight, rows, width, eps, stream)
                 : forward<T, 1>(y, rstd, x, weight, rows, width, eps, stream);
  });
}

int64_t rms_norm_backward_partials(int64_t rows) { return std::min(rows, kBackwardBlocks); }

cudaError_t launch_rms_norm_backward(CudaType type, void* grad_x, CudaType weight_type, void* grad_weight, bool add,
                                     float* partials, const void* grad_y, const void* x, const void* weight,
                                     const float* rstd, int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows > 0) {
    const cudaError_t status = visit_type(type, [&]<class T>(T) {
      constexpr int N = kVectorWidth<T>;
      const bool whole =
          width % N == 0 && is_aligned(x) && is_aligned(grad_y) && is_aligned(grad_x) && is_aligned(weight);
      return whole ? backward<T, N>(grad_x, partials, grad_y, x, weight, rstd, rows, width, stream)
                   : backward<T, 1>(grad_x, partials, grad_y, x, weight, rstd, rows, width, stream);
    });
    if (status != cudaSuccess) return status;
  }
  return visit_type(weight_type, [&]<class T>(T) {
    return sum_partials<T>(grad_weight, add, partials, rms_norm_backward_partials(rows), width, stream);
  });
}

}  // namespace strata::kernels
