// SPDX-License-Identifier: MIT
// The product of few rows of 16-bit elements on tensor cores. Without them a thread multiplies each weight once for
// each row, and several rows take longer than the matrix takes to read. The warps of a block are teams of kSplit warps.
// A team has kOutputs outputs at a time, and each of its warps computes a part of their sums.
#pragma once

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/linear/few_rows_parts.cuh"

namespace strata::kernels {

// The shape of a kernel. kAhead units of each row are loaded by a warp at once, and kBlocks blocks share a
// multiprocessor.
template <int kWarpsOfRow, int kUnitsAhead, int kBlocksAtOnce>
struct MmaPlan {
  static constexpr int kSplit = kWarpsOfRow, kAhead = kUnitsAhead, kBlocks = kBlocksAtOnce;
};

// sums [16, 8] += A [16, 16] B [16, 8] of a warp.
template <class T>
__device__ void multiply(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                         unsigned b1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// A unit is 64 columns. Lane 4 g + c loads 16 bytes of row g at 16 c, and at 16 c + 64, of x and of the matrix. The
// first two words hold what an instruction expects at 2 c and 2 c + 8 of its 16 columns, and the others what the next
// one does. So the columns are in another order, the same in the matrix and in x.
inline constexpr int kUnit = 64, kMostMmaRows = 8;

// A warp reads two groups of 8 rows of the matrix: 16 outputs, or the gates of 8 outputs and their factors. kRows is
// the number of normed rows, or more.
template <class T, class Plan, int kRows, bool kGated, bool kNormed>
__global__ void __launch_bounds__(kFewRowsThreads, Plan::kBlocks)
    few_rows_mma_kernel(const __grid_constant__ FewRows a) {
  constexpr int kGroups = 2, kParts = kGated ? 2 : 1, kAhead = Plan::kAhead, kSplit = Plan::kSplit;
  constexpr int kOutputs = 8 * kGroups / kParts, kTeams = kFewRowsWarps / kSplit, kOutputsOfBlock = kTeams * kOutputs;
  constexpr int kRound = kUnit * kSplit * kAhead;
  static_assert(kFewRowsWarps % kSplit == 0 && sizeof(T) == 2 && kRows <= kMostMmaRows);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, g = thread % kWarp / 4, c = thread % 4;
  const int part = warp % kSplit, team = warp / kSplit, blocks = static_cast<int>(gridDim.x);
  const int inputs = static_cast<int>(a.inputs), rounds = (inputs + kRound - 1) / kRound;
  const int tiles = static_cast<int>((a.outputs + kOutputsOfBlock - 1) / kOutputsOfBlock);

  // The loads are a round ahead of the products, also from one tile of outputs to the next.
  int load_tile = static_cast<int>(blockIdx.x), load_round = 0;
  const T* matrix_rows[kGroups];
  const auto begin_tile = [&] {
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      const int64_t first = int64_t{load_tile} * kOutputsOfBlock + team * kOutputs + m / kParts * 8 + g;
      const int64_t output = min(first, a.outputs - 1);  // a row too many is computed, but not stored
      matrix_rows[m] = static_cast<const T*>(a.weight) + (output + m % kParts * a.outputs) * a.inputs;
    }
  };
  const auto column_of = [&](int round, int i, int half) {
    return ((round * kAhead + i) * kSplit + part) * kUnit + half * (kUnit / 2) + c * 8;
  };
  uint4 weights[kAhead][kGroups][2];
  const auto load = [&](int i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = column_of(load_round, i, half);
      const bool inside = load_tile < tiles && column < inputs;
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const auto* vector = reinterpret_cast<const uint4*>(matrix_rows[m] + column);
        weights[i][m][half] = inside ? load_matrix(vector) : uint4{};
      }
    }
  };
  const auto end_round = [&] {
    if (++load_round < rounds) return;
    load_round = 0, load_tile += blocks;
    if (load_tile < tiles) begin_tile();
  };
  begin_tile();
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(i);
  end_round();
  if constexpr (kNormed) {
    for (int k = thread * 8; k < inputs; k += kFewRowsThreads * 8) prefetch(static_cast<const T*>(a.norm_weight) + k);
  }
  let_next_kernel_start();
  wait_for_kernel_before();
  extern __shared__ uint4 normed[];  // [kRows, stride]
  const int stride = normed_stride(inputs);
  if constexpr (kNormed) normalize_rows<T, kRows>(a, normed, stride);
  const T* x_row = kNormed ? reinterpret_cast<const T*>(normed + g % kRows * stride)
                           : static_cast<const T*>(a.x) + min(static_cast<int64_t>(g), a.rows - 1) * a.inputs;

  __shared__ alignas(16) float parts[kFewRowsWarps][kGroups][8][kMostMmaRows];
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += blocks) {
    float sums[4] = {};
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int column = column_of(round, i, half);
          const uint4 x = column < inputs ? *reinterpret_cast<const uint4*>(x_row + column) : uint4{};
          const uint4 upper = weights[i][0][half], lower = weights[i][1][half];
          multiply<T>(sums, upper.x, lower.x, upper.y, lower.y, x.x, x.y);
          multiply<T>(sums, upper.z, lower.z, upper.w, lower.w, x.z, x.w);
        }
        load(i);
      }
      end_round();
    }
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      *reinterpret_cast<float2*>(&parts[warp][m][g][2 * c]) = float2{sums[2 * m], sums[2 * m + 1]};
    }
    __syncthreads();
    for (int i = thread; i < kOutputsOfBlock * static_cast<int>(a.rows); i += kFewRowsThreads) {
      const int place = i % kOutputsOfBlock, row = i / kOutputsOfBlock, o = place % kOutputs;
      const int64_t output = int64_t{tile} * kOutputsOfBlock + place;
      if (output >= a.outputs) continue;
      store_result<T, kGated>(a, row, output, [&](int gate_or_factor) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < kSplit; ++w) {
          sum += parts[place / kOutputs * kSplit + w][o / 8 * kParts + gate_or_factor][o % 8][row];
        }
        return sum;
      });
    }
    __syncthreads();  // the sums of the next tile are in the same place
  }
}

template <class T, class Plan, int kRows, bool kGated, bool kNormed>
cudaError_t launch_few_rows_mma(const FewRows& a, cudaStream_t stream) {
  constexpr int kOutputs = kFewRowsWarps / Plan::kSplit * 16 / (kGated ? 2 : 1);
  const int64_t most_blocks = int64_t{Plan::kBlocks} * multiprocessors();
  const int64_t tiles = ceil_divide<int64_t>(a.outputs, kOutputs);
  const auto blocks = static_cast<unsigned>(tiles < most_blocks ? tiles : most_blocks);
  const int shared_bytes = kNormed ? kRows * normed_stride(static_cast<int>(a.inputs)) * 16 : 0;
  return launch_overlapped(few_rows_mma_kernel<T, Plan, kRows, kGated, kNormed>, blocks, kFewRowsThreads, shared_bytes,
                           stream, a);
}

}  // namespace strata::kernels
