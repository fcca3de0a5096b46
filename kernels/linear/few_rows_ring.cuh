// SPDX-License-Identifier: MIT
// The product of few rows of 16-bit elements, on tensor cores. A warp fills a ring of stages in shared memory with the
// matrix, so that it is read all the time, also while other warps wait for the kernel before or for their sums.
#pragma once

#include "kernels/cuda/bulk_ring.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/linear/few_rows_parts.cuh"

namespace strata::kernels {

// A tile is kGroups groups of 8 rows of the matrix, and a stage has kUnits units of each of 8 warps.
template <int kGroupsOfTile, int kUnitsOfWarp, int kStagesOfRing, bool kLateStart = true>
struct RingPlan {
  static constexpr int kGroups = kGroupsOfTile, kUnits = kUnitsOfWarp, kStages = kStagesOfRing;
  static constexpr bool kLate = kLateStart;
  // The columns of a stage, and the bytes from one row to the next. Adjacent rows are 64 bytes apart modulo the 128 of
  // all banks.
  static constexpr int kColumns = kFewRowsWarps * kUnits * 64, kStride = kColumns * 2 + 64;
  static constexpr int kStageBytes = kGroups * 8 * kStride, kRingBytes = kStages * kStageBytes;
};

inline constexpr int kRingThreads = kFewRowsThreads + kWarp;

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

// A unit is 64 columns. Lane 4 g + c loads 16 bytes of row g of x and of the matrix at 16 c, and at 16 c + 64. The
// first two words hold what an instruction expects at 2 c and 2 c + 8 of its 16 columns, and the others what the next
// one does. So the columns are in another order, the same in the matrix and in x.
template <class T, class Plan, int kRows, bool kGated, bool kNormed>
__global__ void __launch_bounds__(kRingThreads, 3) few_rows_ring_kernel(const __grid_constant__ FewRows a) {
  constexpr int M = Plan::kGroups, kParts = kGated ? 2 : 1, kOutputs = 8 * M / kParts, kHalves = kRows > 8 ? 2 : 1;
  constexpr int kVectors = 2 * Plan::kUnits;  // of a warp in each row of a stage
  static_assert(M % kParts == 0 && sizeof(T) == 2);
  extern __shared__ uint4 memory[];
  const RingBarriers<Plan::kStages> barriers(Plan::kStages, kFewRowsWarps);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp, g = lane / 4,
            c = lane % 4;
  const int inputs = static_cast<int>(a.inputs), segments = (inputs + Plan::kColumns - 1) / Plan::kColumns;
  const int tiles = static_cast<int>((a.outputs + kOutputs - 1) / kOutputs);
  const unsigned ring = shared_address(memory);
  RingPosition position;

  if (warp == kFewRowsWarps) {
    if constexpr (!Plan::kLate) let_next_kernel_start();
    int filled = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const int m = lane / 8;  // the first 8 M lanes copy a row each
      const int64_t output = min(int64_t{tile} * kOutputs + m / kParts * 8 + lane % 8, a.outputs - 1);
      const T* row = static_cast<const T*>(a.weight) + (output + m % kParts * a.outputs) * a.inputs;
      for (int column = 0; column < inputs; column += Plan::kColumns) {
        const int bytes = min(Plan::kColumns, inputs - column) * 2;
        barriers.empty(position.stage).wait(position.turn ^ 1);
        if (lane == 0) barriers.full(position.stage).arrive_expecting(8 * M * bytes);
        __syncwarp();
        if (lane < 8 * M) {
          copy_bulk(ring + position.stage * Plan::kStageBytes + lane * Plan::kStride, row + column, bytes,
                    barriers.full(position.stage));
        }
        position.advance(Plan::kStages);
        if (++filled == Plan::kStages && Plan::kLate) let_next_kernel_start();
      }
    }
    if (Plan::kLate && filled < Plan::kStages) let_next_kernel_start();
    return;
  }

  uint4* normed = memory + Plan::kRingBytes / 16;  // [kRows, stride]
  const int stride = normed_stride(inputs);
  if constexpr (kNormed) {
    for (int k = thread * 8; k < inputs; k += kFewRowsThreads * 8) prefetch(static_cast<const T*>(a.norm_weight) + k);
  }
  wait_for_kernel_before();
  if constexpr (kNormed) normalize_rows<T, kRows>(a, normed, stride);
  const T* rows_of_x[kHalves];
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
    rows_of_x[i] = kNormed ? reinterpret_cast<const T*>(normed + (8 * i + g) % kRows * stride)
                           : static_cast<const T*>(a.x) + min(int64_t{8 * i + g}, a.rows - 1) * a.inputs;
  }
  const unsigned place_in_stage = ring + g * Plan::kStride + (warp * Plan::kUnits * 64 + c * 8) * 2;

  __shared__ alignas(16) float parts[2][kFewRowsWarps][M][kHalves * 8][8];
  int buffer = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    float sums[2][M][4] = {};  // two, because an instruction waits for the one before it with the same sums
    for (int segment = 0; segment < segments; ++segment) {
      const int column = segment * Plan::kColumns + warp * Plan::kUnits * 64 + c * 8;
      uint4 x[kVectors][kHalves];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kHalves; ++i) {
          const bool inside = column + v * 32 < inputs;
          x[v][i] = inside ? *reinterpret_cast<const uint4*>(rows_of_x[i] + column + v * 32) : uint4{};
        }
      }
      barriers.full(position.stage).wait(position.turn);
      const unsigned place = place_in_stage + position.stage * Plan::kStageBytes;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const bool inside = column + v * 32 < inputs;
        const uint4 low = x[v][0], high = kHalves == 2 ? x[v][kHalves - 1] : uint4{};
#pragma unroll
        for (int m = 0; m < M; ++m) {
          const uint4 w = inside ? load_shared(place + m * 8 * Plan::kStride + v * 64) : uint4{};
          multiply<T>(sums[v % 2][m], low.x, high.x, low.y, high.y, w.x, w.y);
          multiply<T>(sums[v % 2][m], low.z, high.z, low.w, high.w, w.z, w.w);
        }
      }
      barriers.release(position.stage, lane == 0);
      position.advance(Plan::kStages);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < kHalves; ++i) {
        *reinterpret_cast<float2*>(&parts[buffer][warp][m][8 * i + g][2 * c]) =
            float2{sums[0][m][2 * i] + sums[1][m][2 * i], sums[0][m][2 * i + 1] + sums[1][m][2 * i + 1]};
      }
    }
    meet_readers();
    for (int i = thread; i < kOutputs * static_cast<int>(a.rows); i += kFewRowsThreads) {
      const int place = i % kOutputs, row = i / kOutputs;
      const int64_t output = int64_t{tile} * kOutputs + place;
      if (output >= a.outputs) continue;
      store_result<T, kGated>(a, row, output, [&](int part) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < kFewRowsWarps; ++w) sum += parts[buffer][w][place / 8 * kParts + part][row][place % 8];
        return sum;
      });
    }
    buffer ^= 1;  // a warp is at most one tile ahead of the others
  }
}

template <class T, class Plan, int kRows, bool kGated, bool kNormed>
cudaError_t launch_few_rows_ring(const FewRows& a, cudaStream_t stream) {
  constexpr int kOutputs = Plan::kGroups * 8 / (kGated ? 2 : 1);
  const auto tiles = ceil_divide<int64_t>(a.outputs, kOutputs);
  const auto blocks = static_cast<unsigned>(tiles < kMultiprocessors ? tiles : kMultiprocessors);
  const auto kernel = few_rows_ring_kernel<T, Plan, kRows, kGated, kNormed>;
  const int bytes = Plan::kRingBytes + (kNormed ? kRows * normed_stride(static_cast<int>(a.inputs)) * 16 : 0);
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status != cudaSuccess) return status;
  return launch_overlapped(kernel, blocks, kRingThreads, bytes, stream, a);
}

}  // namespace strata::kernels
