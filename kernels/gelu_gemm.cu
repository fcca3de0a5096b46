// SPDX-License-Identifier: MIT
// One block a multiprocessor, two blocks a cluster, 128 rows each of the same columns: b is loaded once for both. Two
// warpgroups multiply 64 rows each. Of the third, one warp asks for boxes of a and b, the others take the finished tile
// from shared memory and apply gelu_tanh; the tile itself, the pre-activation, is stored by the copy engine.
// On an H200 65536 x 768 -> 3072 takes 0.506 ms (611 TFLOP/s; cuBLASLt 0.551), the product with bias alone 0.440. What
// limits it is what it writes: measured beside each other, at the clocks that all of them leave, the product with bias
// takes 0.482, this kernel 0.536, without the arithmetic of gelu_tanh 0.514, without the pre-activation too 0.473.
#include <algorithm>

#include "kernels/device_utils.cuh"
#include "kernels/gelu_gemm.h"
#include "kernels/hopper.cuh"

namespace strata::kernels {
namespace {

constexpr int kRows = 128;  // of a block's tile
constexpr int kColumns = 256;
constexpr int kDepth = 64;                     // 128 bytes: what the copy engine swizzles
constexpr int kBlocks = 2;                     // of a cluster
constexpr int kMultipliers = 8, kStorers = 3;  // warps; one more loads
constexpr int kGroup = 8;  // clusters side by side in rows before the next columns: they share b in the L2 cache
constexpr int kThreads = (kMultipliers + kStorers + 1) * kWarp;

// What a block holds in shared memory, from a multiple of 1024 on.
constexpr int kStages = 3;
constexpr int kBytesA = kRows * kDepth * 2, kBytesB = kColumns * kDepth * 2, kStage = kBytesA + kBytesB;
// The finished tile lies in boxes of 64 columns, as the copy engine stores them.
constexpr int kBoxes = kColumns / 64, kBox = kRows * 128;
constexpr int kBiases = kStages + 1;         // the loads are at most kStages tiles ahead
constexpr int kFinished = kStages * kStage;  // offsets
constexpr int kBias = kFinished + kBoxes * kBox;
constexpr int kBarriers = kBias + kBiases * kColumns * 2;
constexpr int kShared = kBarriers + (2 * kStages + 2) * 8 + 1024;

struct Problem {
  const void* bias;
  void* out;
  int64_t out_distance;
  int rows, columns, depth;
};

// A ring of stages, and which time round it is.
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The tiles of a cluster, in an order that keeps what runs at one time together in both directions.
struct Tiles {
  int pairs, across, index;
  __device__ explicit Tiles(const Problem& problem)
      : pairs((problem.rows + kBlocks * kRows - 1) / (kBlocks * kRows)),
        across((problem.columns + kColumns - 1) / kColumns),
        index(static_cast<int>(blockIdx.x) / kBlocks) {}
  __device__ bool more() const { return index < pairs * across; }
  __device__ void next() { index += static_cast<int>(gridDim.x) / kBlocks; }
  __device__ int first_row() const {
    const int pair = first() + index % (kGroup * across) % height();
    return (pair * kBlocks + static_cast<int>(block_in_cluster())) * kRows;
  }
  __device__ int first_column() const { return index % (kGroup * across) / height() * kColumns; }

 private:
  __device__ int first() const { return index / (kGroup * across) * kGroup; }
  __device__ int height() const { return min(pairs - first(), kGroup); }
};

// Where in shared memory what is.
struct Places {
  unsigned memory;
  __device__ unsigned stage(int i) const { return memory + i * kStage; }
  __device__ unsigned bias(int i) const { return memory + kBias + i * kColumns * 2; }
  // Of 16 bytes of the finished tile: neither writing columns nor reading rows meets one bank twice.
  __device__ unsigned finished(int row, int chunk) const {
    return memory + kFinished + chunk / 8 * kBox + row * 128 + ((chunk % 8) ^ (row % 8)) * 16;
  }
  __device__ SharedBarrier full(int i) const { return {memory + kBarriers + i * 8}; }
  __device__ SharedBarrier empty(int i) const { return full(kStages + i); }
  __device__ SharedBarrier finished_full() const { return full(2 * kStages); }
  __device__ SharedBarrier finished_empty() const { return full(2 * kStages + 1); }
};

__device__ void load_tiles(const CUtensorMap& a, const CUtensorMap& b, const Problem& problem, const Places& places) {
  constexpr uint16_t kAll = (1 << kBlocks) - 1;
  constexpr int kShare = kColumns / kBlocks;  // the columns of b that this block loads for all
  const int share = static_cast<int>(block_in_cluster()) * kShare;
  Turn turn;
  int bias_place = 0;
  for (Tiles tiles(problem); tiles.more(); tiles.next()) {
    const int row = tiles.first_row(), column = tiles.first_column();
    for (int k = 0; k < problem.depth; k += kDepth) {
      places.empty(turn.stage).wait(turn.parity ^ 1);
      const SharedBarrier barrier = places.full(turn.stage);
      const unsigned place = places.stage(turn.stage);
      const bool with_bias = k == 0 && problem.bias != nullptr;
      const int bias_bytes = with_bias ? 2 * min(kColumns, problem.columns - column) : 0;
      barrier.arrive_expecting(kStage + bias_bytes);
      load_box(place, a, k, row, barrier);
      load_box_to(kAll, place + kBytesA + share * 128, b, k, column + share, barrier);
      if (with_bias) {
        copy_bulk(places.bias(bias_place), static_cast<const char*>(problem.bias) + 2 * static_cast<int64_t>(column),
                  bias_bytes, barrier);
      }
      turn.next();
    }
    bias_place = bias_place + 1 == kBiases ? 0 : bias_place + 1;
  }
}

template <class Element>
__device__ unsigned pack(float low, float high) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
}

template <class Element>
__device__ float2 unpack(unsigned pair) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  }
}

// The sums of this warpgroup and the bias, rounded, into the finished tile.
template <class Element>
__device__ void finish(const float (&sums)[kColumns / 2], bool has_bias, unsigned bias, const Places& places) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < kColumns / 16; ++j) {
    float2 shift[2] = {};
    if (has_bias) {
#pragma unroll
      for (int i = 0; i < 2; ++i) shift[i] = unpack<Element>(load_word(bias + j * 32 + i * 16 + lane % 4 * 4));
    }
    const float* d = sums + 8 * j;
    store_matrices(places.finished(row, 2 * j + lane / 16), pack<Element>(d[0] + shift[0].x, d[1] + shift[0].y),
                   pack<Element>(d[2] + shift[0].x, d[3] + shift[0].y),
                   pack<Element>(d[4] + shift[1].x, d[5] + shift[1].y),
                   pack<Element>(d[6] + shift[1].x, d[7] + shift[1].y));
  }
}

template <class Element>
__device__ void multiply_tiles(const Problem& problem, const Places& places) {
  const unsigned lane = threadIdx.x % kWarp, half = threadIdx.x / 128;
  const auto release = [&](int stage) {
    if (lane < kBlocks) arrive_at(places.empty(stage), lane);
  };
  Turn turn;
  unsigned parity = 0;
  int bias_place = 0;
  for (Tiles tiles(problem); tiles.more(); tiles.next()) {
    float sums[kColumns / 2];
    int before = -1;  // the stage that is still being read
    for (int k = 0; k < problem.depth; k += kDepth) {
      places.full(turn.stage).wait(turn.parity);
      const unsigned place = places.stage(turn.stage);
      const uint64_t a = matrix_descriptor(place + half * 64 * 128), b = matrix_descriptor(place + kBytesA);
      begin_products();
#pragma unroll
      for (int i = 0; i < kDepth / 16; ++i) {  // 16 of k: 32 bytes of a row
        product<Element>(sums, a + i * 2, b + i * 2, k + i > 0);
      }
      commit_products();
      if (before >= 0) {
        wait_products<1>();
        release(before);
      }
      before = turn.stage;
      turn.next();
    }
    wait_products<0>();
    hold(sums);
    release(before);
    places.finished_empty().wait(parity ^ 1);
    finish<Element>(sums, problem.bias != nullptr, places.bias(bias_place), places);
    show_to_copies();
    places.finished_full().arrive();
    parity ^= 1;
    bias_place = bias_place + 1 == kBiases ? 0 : bias_place + 1;
  }
}

// x (1 + tanh(u)) / 2 by the instruction for tanh, whose error is 2^-11: what rounding to bf16 hides.
__device__ inline float gelu_tanh(float x) {
  constexpr float kA = 0.79788456f, kB = kA * 0.044715f;
  const float half = 0.5f * x;
  float tanh_of_inner;
  asm("tanh.approx.f32 %0, %1;" : "=f"(tanh_of_inner) : "f"(x * fmaf(kB, x * x, kA)));
  return fmaf(half, tanh_of_inner, half);
}

// A warp has whole rows, every third one; a lane 8 columns of each.
template <class Element>
__device__ void store_tiles(const CUtensorMap& pre_activation, const Problem& problem, const Places& places) {
  constexpr int kAhead = 4;  // rows that are in registers at once: as many chains of instructions side by side
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp - kMultipliers;
  unsigned parity = 0;
  for (Tiles tiles(problem); tiles.more(); tiles.next()) {
    const int first_row = tiles.first_row(), first_column = tiles.first_column(), column = first_column + lane * 8;
    const int rows = column < problem.columns ? min(kRows, problem.rows - first_row) : 0;
    Element* const out = static_cast<Element*>(problem.out) + first_row * problem.out_distance + column;
    places.finished_full().wait(parity);
    if (warp == 0 && lane < kBoxes) {
      store_box(pre_activation, first_column + lane * 64, first_row, places.finished(0, lane * 8));
    }
    for (int begin = warp; begin < kRows; begin += kAhead * kStorers) {
      Packed<Element> values[kAhead], results[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {  // up to 3 rows beyond the tile, which are not used
        values[i].words = load_shared(places.finished(begin + i * kStorers, lane));
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) results[i].fill([&](int k) { return gelu_tanh(values[i].at(k)); });
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int row = begin + i * kStorers;
        if (row < rows) *reinterpret_cast<uint4*>(out + row * problem.out_distance) = results[i].words;
      }
    }
    wait_for_stores();
    places.finished_empty().arrive();
    parity ^= 1;
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads, 1)
    gelu_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                     const __grid_constant__ CUtensorMap pre_activation, const __grid_constant__ Problem problem) {
  extern __shared__ char unaligned[];
  const unsigned address = shared_address(unaligned);
  const Places places = {address + (0 - address) % 1024};  // the same in both blocks of a cluster
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      places.full(i).init(1);
      places.empty(i).init(kBlocks * kMultipliers);
    }
    places.finished_full().init(kMultipliers * kWarp);
    places.finished_empty().init(kStorers * kWarp);
    fence_initialized_barriers();
  }
  __syncthreads();
  meet_cluster();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  // The block has 168 registers for each of 384 threads, and gets no more: 2 * 200 + 104 = 3 * 168.
  if (warp < kMultipliers) {
    take_registers<200>();
    multiply_tiles<Element>(problem, places);
  } else {
    give_registers<104>();
    if (warp < kMultipliers + kStorers) {
      store_tiles<Element>(pre_activation, problem, places);
    } else if (threadIdx.x % kWarp == 0) {
      load_tiles(a, b, problem, places);
    }
  }
  meet_cluster();  // the other block may still write here
}

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

// Boxes of 64 columns of a matrix of 16-bit elements; outside of it are zeros.
cudaError_t describe(CUtensorMap& map, CudaType type, const void* data, int64_t rows, int64_t columns, int64_t distance,
                     int box_rows) {
  static const Encode encode = find_encoder();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(distance) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  const CUresult result =
      encode(&map, type == CudaType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
             const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <class Element>
cudaError_t launch(const GeluGemm& g, cudaStream_t stream) {
  static const cudaError_t prepared =
      cudaFuncSetAttribute(gelu_gemm_kernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (prepared != cudaSuccess) return prepared;
  CUtensorMap a, b, pre_activation;
  cudaError_t status = describe(a, g.type, g.a, g.rows, g.depth, g.a_distance, kRows);
  if (status == cudaSuccess) status = describe(b, g.type, g.b, g.columns, g.depth, g.b_distance, kColumns / kBlocks);
  if (status == cudaSuccess) {
    status = describe(pre_activation, g.type, g.pre_activation, g.rows, g.columns, g.out_distance, kRows);
  }
  if (status != cudaSuccess) return status;
  const Problem problem = {
      g.bias, g.out, g.out_distance, static_cast<int>(g.rows), static_cast<int>(g.columns), static_cast<int>(g.depth)};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kMultiprocessors);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kShared;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kBlocks, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, gelu_gemm_kernel<Element>, a, b, pre_activation, problem);
}

}  // namespace

cudaError_t launch_gelu_gemm(const GeluGemm& gemm, cudaStream_t stream) {
  if (gemm.type == CudaType::float32) return cudaErrorInvalidValue;
  return gemm.type == CudaType::bfloat16 ? launch<__nv_bfloat16>(gemm, stream) : launch<__half>(gemm, stream);
}

}  // namespace strata::kernels
