// SPDX-License-Identifier: MIT
// A function applied to elements that lie one after another: up to 2^63 of them, at any alignment.
#pragma once

#include <algorithm>

#include "kernels/device_utils.cuh"

namespace strata::kernels {

#ifdef STRATA_TUNE
extern int tune_threads;
#endif
#ifndef STRATA_ELEMENTWISE_VECTORS
#define STRATA_ELEMENTWISE_VECTORS 1
#endif
inline constexpr int kElementwiseThreads = 256;
inline constexpr int kElementwiseVectors = STRATA_ELEMENTWISE_VECTORS;

template <int kInputs>
struct Inputs {
  const void* pointers[kInputs];
};

// Each thread has kElementwiseVectors vectors of every input in flight. What is left over at the end, and everything
// where `vectors` is 0 because a pointer is not aligned, goes element by element.
template <class T, int kInputs, class Function>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_kernel(T* output, Inputs<kInputs> inputs, int64_t vectors, int64_t count, Function function) {
  constexpr int N = kVectorWidth<T>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kElementwiseVectors;
  for (int64_t start = static_cast<int64_t>(blockIdx.x) * blockDim.x * kElementwiseVectors + threadIdx.x;
       start < vectors; start += step) {
    Packed<T> values[kElementwiseVectors][kInputs];
#pragma unroll
    for (int v = 0; v < kElementwiseVectors; ++v) {
      const int64_t i = start + v * blockDim.x;
#pragma unroll
      for (int j = 0; j < kInputs; ++j) {
        if (i < vectors) values[v][j].words = __ldcs(static_cast<const uint4*>(inputs.pointers[j]) + i);
      }
    }
#pragma unroll
    for (int v = 0; v < kElementwiseVectors; ++v) {
      const int64_t i = start + v * blockDim.x;
      if (i >= vectors) continue;
      Packed<T> result;
      result.fill([&](int k) {
        if constexpr (kInputs == 1) {
          return function(values[v][0].at(k));
        } else {
          return function(values[v][0].at(k), values[v][1].at(k));
        }
      });
      __stcs(reinterpret_cast<uint4*>(output) + i, result.words);
    }
  }
  for (int64_t i = vectors * N + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    if constexpr (kInputs == 1) {
      output[i] = from_float<T>(function(to_float(static_cast<const T*>(inputs.pointers[0])[i])));
    } else {
      output[i] = from_float<T>(function(to_float(static_cast<const T*>(inputs.pointers[0])[i]),
                                         to_float(static_cast<const T*>(inputs.pointers[1])[i])));
    }
  }
}

// output[i] = function(inputs[0][i], ...). `function` takes and returns fp32.
template <class T, class Function, class... Pointers>
cudaError_t launch_elementwise(void* output, int64_t count, cudaStream_t stream, Function function,
                               const Pointers*... inputs) {
  if (count == 0) return cudaSuccess;
  constexpr int kInputs = sizeof...(Pointers);
  const int64_t vectors = are_aligned(output, inputs...) ? count / kVectorWidth<T> : 0;
  const int64_t work = vectors > 0 ? ceil_divide<int64_t>(vectors, kElementwiseVectors) : count;
  const int64_t blocks = std::min(ceil_divide<int64_t>(work, kElementwiseThreads), int64_t{1} << 30);
  elementwise_kernel<T, kInputs><<<static_cast<unsigned>(blocks), kElementwiseThreads, 0, stream>>>(
      static_cast<T*>(output), Inputs<kInputs>{{inputs...}}, vectors, count, function);
  return cudaGetLastError();
}

}  // namespace strata::kernels
