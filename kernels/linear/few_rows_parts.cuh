// SPDX-License-Identifier: MIT
// What the kernels of few rows have in common: loads of the matrix, the norm of their input, and their results.
#pragma once

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/linear/few_rows_cuda.h"

namespace strata::kernels {

inline constexpr int kFewRowsWarps = 8, kFewRowsThreads = kFewRowsWarps * kWarp;

// The matrix is read once, so it shall not push other data out of the first cache.
__device__ inline uint4 load_matrix(const uint4* pointer) {
  uint4 words;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(pointer));
  return words;
}

template <class T>
__device__ float activated(Activation kind, float x) {
  switch (kind) {
    case Activation::gelu:
      return activate<Activation::gelu, T>(x);
    case Activation::gelu_tanh:
      return activate<Activation::gelu_tanh, T>(x);
    case Activation::relu:
      return activate<Activation::relu, T>(x);
    case Activation::silu:
      return activate<Activation::silu, T>(x);
    case Activation::none:
      break;
  }
  return x;
}

// Reads the vector into the second cache.
__device__ inline void prefetch(const void* vector) { asm volatile("prefetch.global.L2 [%0];" ::"l"(vector)); }

// Vectors from one normed row to the next in shared memory. Adjacent rows are 64 bytes apart modulo the 128 of all
// banks.
__host__ __device__ constexpr int normed_stride(int inputs) {
  const int vectors = inputs / 8;
  return vectors + (12 - vectors % 8) % 8;
}

// Writes rms_norm(x + branch) of all rows to shared memory. Each block does so, because that is faster than a kernel
// between two products. The first block stores the sum too.
template <class T, int kRows>
__device__ void normalize_rows(const FewRows& a, uint4* normed, int stride) {
  constexpr int kThreadsOfRow = kFewRowsThreads / kRows, kWarpsOfRow = kFewRowsWarps / kRows;
  const int thread = static_cast<int>(threadIdx.x), vectors = static_cast<int>(a.inputs / kVectorWidth<T>);
  const int first = thread % kThreadsOfRow;
  const int row = thread / kThreadsOfRow;
  const int64_t begin = min(static_cast<int64_t>(row), a.rows - 1) * vectors;
  const auto* x = static_cast<const uint4*>(a.x) + begin;
  const auto* branch = static_cast<const uint4*>(a.branch) + begin;
  uint4* own = normed + row * stride;
  float squares = 0.0f;
#pragma unroll 2
  for (int v = first; v < vectors; v += kThreadsOfRow) {
    const Packed<T> left{x[v]}, right{a.branch == nullptr ? uint4{} : branch[v]};
    Packed<T> sum;
    sum.fill([&](int k) { return left.at(k) + right.at(k); });
#pragma unroll
    for (int k = 0; k < kVectorWidth<T>; ++k) squares = fmaf(sum.at(k), sum.at(k), squares);
    own[v] = sum.words;
    if (a.sum != nullptr && blockIdx.x == 0 && row < a.rows) static_cast<uint4*>(a.sum)[begin + v] = sum.words;
  }
  squares = warp_sum(squares);
  if constexpr (kWarpsOfRow > 1) {
    __shared__ float squares_of_warps[kFewRowsWarps];
    if (thread % kWarp == 0) squares_of_warps[thread / kWarp] = squares;
    __syncthreads();
    squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarpsOfRow; ++i) squares += squares_of_warps[row * kWarpsOfRow + i];
  }
  const float factor = rsqrtf(squares / static_cast<float>(a.inputs) + a.eps);
#pragma unroll 2
  for (int v = first; v < vectors; v += kThreadsOfRow) {  // the vectors that this thread wrote
    const Packed<T> weight{static_cast<const uint4*>(a.norm_weight)[v]}, sum{own[v]};
    Packed<T> y;
    y.fill([&](int k) { return sum.at(k) * factor * weight.at(k); });
    own[v] = y.words;
  }
  __syncthreads();
}

// Stores y of an output: from sum(0), or with a gate from sum(0), which is the gate, and sum(1), its factor.
template <class T, bool kGated, class Sum>
__device__ void store_result(const FewRows& a, int row, int64_t output, Sum sum) {
  // Rounded as if the product were stored and read again.
  const auto product = [&](int part) {
    float result = sum(part);
    if (a.bias != nullptr) result += to_float(static_cast<const T*>(a.bias)[output + part * a.outputs]);
    return to_float(from_float<T>(result));
  };
  const float before = product(0);
  float result = activated<T>(a.activation, before);
  if constexpr (kGated) result *= product(1);
  const int64_t index = row * a.outputs + output;
  if (a.pre_activation != nullptr) static_cast<T*>(a.pre_activation)[index] = from_float<T>(before);
  static_cast<T*>(a.y)[index] = from_float<T>(result);
}

}  // namespace strata::kernels
