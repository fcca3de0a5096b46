// SPDX-License-Identifier: MIT
// The product of few rows with a matrix, without tensor cores: it takes as long as the matrix takes to read.
// A block is kFewRowsWarps warps. kSplit of them share kOutputs outputs, and each computes a part of their sums.
#pragma once

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/linear/few_rows_parts.cuh"

namespace strata::kernels {

// The shape of a kernel. kMatrixRows rows of the matrix are read by a warp at once, kAhead vectors of each.
template <int kMatrixRowsOfWarp, int kWarpsOfRow, int kVectorsAhead>
struct FewRowsPlan {
  static constexpr int kMatrixRows = kMatrixRowsOfWarp, kSplit = kWarpsOfRow, kAhead = kVectorsAhead;
};

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
  if constexpr (kNormed) normalize_rows<T, kRows>(a, normed, static_cast<int>(a.inputs / N));

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
  store_result<T, kGated>(a, row, output, [&](int part) {
    float sum = 0.0f;
    for (int i = 0; i < Plan::kSplit; ++i) {
      sum += sums_of_warps[place / kOutputs * Plan::kSplit + i][place % kOutputs * kParts + part][row];
    }
    return sum;
  });
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
