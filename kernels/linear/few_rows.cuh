// SPDX-License-Identifier: MIT
// The product of few rows with a matrix, as in a step of generation: it takes as long as the matrix takes to read.
// A block is kFewRowsWarps warps. kSplit of them share kOutputs outputs, and each computes a part of their sums.
#pragma once

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/linear/few_rows_cuda.h"

namespace strata::kernels {

inline constexpr int kFewRowsWarps = 8, kFewRowsThreads = kFewRowsWarps * kWarp;

// The shape of a kernel. kMatrixRows rows of the matrix are read by a warp at once, kAhead vectors of each.
template <int kMatrixRowsOfWarp, int kWarpsOfRow, int kVectorsAhead>
struct FewRowsPlan {
  static constexpr int kMatrixRows = kMatrixRowsOfWarp, kSplit = kWarpsOfRow, kAhead = kVectorsAhead;
};

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

// Writes rms_norm(x + branch) of all rows to shared memory. Each block does so, because that is faster than a kernel
// between two products. The first block stores the sum too.
template <class T, int kRows>
__device__ void normalize_rows(const FewRows& a, uint4* normed) {
  const int thread = static_cast<int>(threadIdx.x), vectors = static_cast<int>(a.inputs / kVectorWidth<T>);
  const auto vector_of = [&](const void* rows, int r, int v) {
    return static_cast<const uint4*>(rows) + min(static_cast<int64_t>(r), a.rows - 1) * vectors + v;
  };
  float squares[kRows] = {};
#pragma unroll 1  // needs fewer registers, and most rows have a vector for each thread
  for (int v = thread; v < vectors; v += kFewRowsThreads) {
    Packed<T> x[kRows], branch[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r].words = *vector_of(a.x, r, v);
      if (a.branch != nullptr) branch[r].words = *vector_of(a.branch, r, v);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Packed<T> sum;
      sum.fill([&](int k) { return x[r].at(k) + branch[r].at(k); });
#pragma unroll
      for (int k = 0; k < kVectorWidth<T>; ++k) squares[r] = fmaf(sum.at(k), sum.at(k), squares[r]);
      normed[r * vectors + v] = sum.words;
      if (a.sum != nullptr && blockIdx.x == 0 && r < a.rows) static_cast<uint4*>(a.sum)[r * vectors + v] = sum.words;
    }
  }
  __shared__ float squares_of_warps[kFewRowsWarps][kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float of_warp = warp_sum(squares[r]);
    if (thread % kWarp == 0) squares_of_warps[thread / kWarp][r] = of_warp;
  }
  __syncthreads();
  float factors[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kFewRowsWarps; ++i) sum += squares_of_warps[i][r];
    factors[r] = rsqrtf(sum / static_cast<float>(a.inputs) + a.eps);
  }
#pragma unroll 1
  for (int v = thread; v < vectors; v += kFewRowsThreads) {  // the vectors that this thread wrote
    const Packed<T> weight{static_cast<const uint4*>(a.norm_weight)[v]};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Packed<T> sum{normed[r * vectors + v]};
      Packed<T> y;
      y.fill([&](int k) { return sum.at(k) * factors[r] * weight.at(k); });
      normed[r * vectors + v] = y.words;
    }
  }
  __syncthreads();
}

// kRows is the number of rows of x, or more. kGated: row o of the matrix is the gate of output o, and row outputs + o
// its factor, so that each warp reads pairs of rows. kNormed: there is a norm_weight.
template <class T, class Plan, int kRows, bool kGated, bool kNormed>
__global__ void __launch_bounds__(kFewRowsThreads, kRows == 1 ? 3 : 2) few_rows_kernel(const FewRows a) {
  constexpr int N = kVectorWidth<T>, M = Plan::kMatrixRows, kParts = kGated ? 2 : 1, kOutputs = M / kParts;
  constexpr int kGroups = kFewRowsWarps / Plan::kSplit, kStep = Plan::kSplit * kWarp * N;
  static_assert(M % kParts == 0 && kFewRowsWarps % Plan::kSplit == 0);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int64_t first_of_block = static_cast<int64_t>(blockIdx.x) * kGroups * kOutputs;
  const int64_t first = first_of_block + warp / Plan::kSplit * kOutputs;

  const T* matrix_rows[M];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int64_t output = min(first + m / kParts, a.outputs - 1);  // a row too many is computed, but not stored
    matrix_rows[m] = static_cast<const T*>(a.weight) + (output + m % kParts * a.outputs) * a.inputs;
  }
  int64_t column = static_cast<int64_t>(warp % Plan::kSplit * kWarp + lane) * N;
  const auto is_inside = [&](int i) { return column + i * kStep < a.inputs; };
  Packed<T> weights[M][Plan::kAhead];
  const auto load_weights = [&] {
#pragma unroll
    for (int i = 0; i < Plan::kAhead; ++i) {
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const auto* pointer = reinterpret_cast<const uint4*>(matrix_rows[m] + column + i * kStep);
        weights[m][i].words = is_inside(i) ? load_matrix(pointer) : uint4{};
      }
    }
  };
  load_weights();
  if constexpr (kNormed) {
    for (int64_t k = thread * N; k < a.inputs; k += kFewRowsThreads * N)
      prefetch(static_cast<const T*>(a.norm_weight) + k);
  }
  let_next_kernel_start();
  wait_for_kernel_before();
  extern __shared__ uint4 normed[];  // [kRows, inputs]
  if constexpr (kNormed) normalize_rows<T, kRows>(a, normed);

  float sums[M][kRows] = {};
  while (true) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* x = kNormed ? reinterpret_cast<const T*>(normed) + r * a.inputs
                           : static_cast<const T*>(a.x) + min(static_cast<int64_t>(r), a.rows - 1) * a.inputs;
      Packed<T> parts[Plan::kAhead];
#pragma unroll
      for (int i = 0; i < Plan::kAhead; ++i) {
        parts[i].words = is_inside(i) ? *reinterpret_cast<const uint4*>(x + column + i * kStep) : uint4{};
      }
#pragma unroll
      for (int i = 0; i < Plan::kAhead; ++i) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int k = 0; k < N; ++k) sums[m][r] = fmaf(weights[m][i].at(k), parts[i].at(k), sums[m][r]);
        }
      }
    }
    column += Plan::kAhead * kStep;
    if (column >= a.inputs) break;
    load_weights();
  }

  __shared__ float sums_of_warps[kFewRowsWarps][M][kRows];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float sum = warp_sum(sums[m][r]);
      if (lane == 0) sums_of_warps[warp][m][r] = sum;
    }
  }
  __syncthreads();
  // A thread for each output of the block in each row.
  const int place = thread / kRows, row = thread % kRows;
  const int64_t output = first_of_block + place;
  if (place >= kGroups * kOutputs || row >= a.rows || output >= a.outputs) return;
  // Rounded as if the product were stored and read again.
  const auto product = [&](int part) {
    float sum = 0.0f;
    for (int i = 0; i < Plan::kSplit; ++i) {
      sum += sums_of_warps[place / kOutputs * Plan::kSplit + i][place % kOutputs * kParts + part][row];
    }
    if (a.bias != nullptr) sum += to_float(static_cast<const T*>(a.bias)[output + part * a.outputs]);
    return to_float(from_float<T>(sum));
  };
  const float before = product(0);
  float result = activated<T>(a.activation, before);
  if constexpr (kGated) result *= product(1);
  const int64_t index = row * a.outputs + output;
  if (a.pre_activation != nullptr) static_cast<T*>(a.pre_activation)[index] = from_float<T>(before);
  static_cast<T*>(a.y)[index] = from_float<T>(result);
}

template <class T, class Plan, int kRows, bool kGated, bool kNormed>
cudaError_t launch_few_rows_kernel(const FewRows& a, cudaStream_t stream) {
  constexpr int kOutputs = kFewRowsWarps / Plan::kSplit * Plan::kMatrixRows / (kGated ? 2 : 1);
  const auto blocks = static_cast<unsigned>(ceil_divide<int64_t>(a.outputs, kOutputs));
  const int shared_bytes = kNormed ? static_cast<int>(kRows * a.inputs * static_cast<int64_t>(sizeof(T))) : 0;
  return launch_overlapped(few_rows_kernel<T, Plan, kRows, kGated, kNormed>, blocks, kFewRowsThreads, shared_bytes,
                           stream, a);
}

}  // namespace strata::kernels
