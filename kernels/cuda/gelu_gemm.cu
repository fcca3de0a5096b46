// SPDX-License-Identifier: MIT
// One block per multiprocessor and two blocks per cluster, each with 128 rows of the same columns, so that b is loaded
// once for both. Two warpgroups multiply 64 rows each; one thread of the third loads boxes of a and b. The warps that
// multiplied a tile keep it, rounded, in their registers. While the tensor cores work on the next tile, these warps
// apply gelu_tanh to a part of the finished one after each step of 64 along k, and the copy engine stores the results.
// Clusters take the numbers of their tiles from a counter, one tile ahead, in the order in which they need them.
// On an H200 65536 x 768 -> 3072 takes 0.492 ms (629 TFLOP/s), and 0.484 ms with a fixed share of the tiles for each
// cluster. In earlier runs the kernel with fixed shares took 0.479 ms, cuBLASLt 0.551 and the product with bias alone
// 0.432. A version with separate warps for gelu_tanh, three stages and the tile in shared memory took 0.499 ms then.
// The tensor cores were busy in 76 % of the cycles (79 % in the product with bias alone); without the arithmetic of
// gelu_tanh the kernel took 0.454 ms.
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/gelu_gemm.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/work_counter.cuh"

namespace strata::kernels {
namespace {

constexpr int kRows = 128;  // rows of a block's tile
constexpr int kColumns = 256;
constexpr int kDepth = 64;       // 128 bytes, the width that the copy engine swizzles
constexpr int kBlocks = 2;       // blocks of a cluster
constexpr int kMultipliers = 8;  // warps that multiply; one more loads
constexpr int kGroup = 8;  // clusters that take adjacent rows before the next columns: they share b in the L2 cache
constexpr int kThreads = (kMultipliers + 4) * kWarp;

// Layout of a block's shared memory, which begins at a multiple of 1024 bytes.
constexpr int kStages = 4;
constexpr int kBytesA = kRows * kDepth * 2, kBytesB = kColumns * kDepth * 2, kStage = kBytesA + kBytesB;
// Each multiplying warp has a box of its 16 rows and 64 columns in flight to each of the two results.
constexpr int kBox = 16 * 128;
constexpr int kPlaces = kStages + 1;      // tiles whose bias and position are kept; loads are at most kStages ahead
constexpr int kBoxes = kStages * kStage;  // offset in bytes, as are the next ones
constexpr int kBias = kBoxes + kMultipliers * 2 * kBox;
constexpr int kBarriers = kBias + kPlaces * kColumns * 2;
constexpr int kPositions = kBarriers + (2 * kStages + kPlaces) * 8;
constexpr int kNumbers = kPositions + kPlaces * 8;
constexpr int kShared = kNumbers + kPlaces * 4;
static_assert(kShared <= 227 * 1024);
constexpr int kParts = 8;  // a finished tile is stored in this many parts, between products of the next tile
constexpr int kPartWords = kColumns / 4 / kParts;  // words of each thread in a part

struct Problem {
  const void* bias;
  int rows, columns, depth;
  WorkCounter counter;
};

__device__ unsigned counters[kWorkCounters];

// The position in the ring of stages, and the parity of the round.
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

// The position of a block's tile. Row -1 comes after the last tile.
struct Tile {
  int row, column;
};

// The tiles of all clusters, in an order that keeps the tiles which run at the same time close together in rows and
// columns.
struct Tiles {
  int pairs, across;
  __host__ __device__ Tiles(int rows, int columns)
      : pairs((rows + kBlocks * kRows - 1) / (kBlocks * kRows)), across((columns + kColumns - 1) / kColumns) {}
  __host__ __device__ int count() const { return pairs * across; }
  __device__ Tile block_tile(int number, int block) const {
    const int first = number / (kGroup * across) * kGroup, in_group = number % (kGroup * across);
    const int height = min(pairs - first, kGroup);
    return {((first + in_group % height) * kBlocks + block) * kRows, in_group / height * kColumns};
  }
};

// Addresses in shared memory.
struct Places {
  unsigned memory;
  __device__ unsigned stage(int i) const { return memory + i * kStage; }
  __device__ unsigned bias(int i) const { return memory + kBias + i * kColumns * 2; }
  __device__ unsigned box(int warp, int result) const { return memory + kBoxes + (warp * 2 + result) * kBox; }
  __device__ SharedBarrier full(int i) const { return {memory + kBarriers + i * 8}; }
  __device__ SharedBarrier empty(int i) const { return full(kStages + i); }
  // Ends a phase when the number of the tile has come.
  __device__ SharedBarrier numbered(int i) const { return full(2 * kStages + i); }
  __device__ unsigned number(int i) const { return memory + kNumbers + i * 4; }
  __device__ unsigned position(int i) const { return memory + kPositions + i * 8; }

  __device__ Tile tile(int i) const {
    return {static_cast<int>(load_word(position(i))), static_cast<int>(load_word(position(i) + 4))};
  }
};

__device__ int place_after(int place) { return place + 1 == kPlaces ? 0 : place + 1; }

// The first block of a cluster takes numbers from the counter and sends them to all blocks. `number` is its first one.
// A number is sent during the tile before. Then all blocks have multiplied the step that was loaded kStages steps
// earlier. They know the number of its tile, one of the last kStages, so kPlaces places for numbers are enough.
__device__ void load_tiles(const CUtensorMap& a, const CUtensorMap& b, const Problem& problem, const Places& places,
                           unsigned number) {
  constexpr uint16_t kAll = (1 << kBlocks) - 1;
  constexpr int kShare = kColumns / kBlocks;  // columns of b that this block loads for all blocks of its cluster
  const int block = static_cast<int>(block_in_cluster()), share = block * kShare;
  const Tiles tiles(problem.rows, problem.columns);
  // The next number is taken in the last step but one, which hides the time that it takes. An earlier one would leave
  // no tile to clusters that start a little later, if there are few tiles.
  const int take_at = max((problem.depth - 1) / kDepth - 1, 0) * kDepth;
  const auto send = [&](int place) {
    for (int i = 0; i < kBlocks; ++i) send_word(number, places.number(place), places.numbered(place), i);
  };
  Turn turn;
  int place = 0;
  unsigned round = 0;  // parity of the round of places
  if (block == 0) send(place);
  while (true) {
    places.numbered(place).arrive_expecting(4);
    places.numbered(place).wait_for_cluster(round);
    const auto own = static_cast<int>(load_word(places.number(place)));
    if (own >= tiles.count()) break;
    const Tile tile = tiles.block_tile(own, block);
    for (int k = 0; k < problem.depth; k += kDepth) {
      places.empty(turn.stage).wait(turn.parity ^ 1);
      const SharedBarrier barrier = places.full(turn.stage);
      const unsigned stage = places.stage(turn.stage);
      const bool with_bias = k == 0 && problem.bias != nullptr;
      const int bias_bytes = with_bias ? 2 * min(kColumns, problem.columns - tile.column) : 0;
      if (k == 0) store_words(places.position(place), tile.row, tile.column);
      barrier.arrive_expecting(kStage + bias_bytes);
      load_box(stage, a, k, tile.row, barrier);
      load_box_to(kAll, stage + kBytesA + share * 128, b, k, tile.column + share, barrier);
      if (with_bias) {
        copy_bulk(places.bias(place), static_cast<const char*>(problem.bias) + 2 * static_cast<int64_t>(tile.column),
                  bias_bytes, barrier);
      }
      if (block == 0 && k == take_at) {
        number = problem.counter.take(counters);
        send(place_after(place));
      }
      turn.next();
    }
    place = place_after(place);
    if (place == 0) round ^= 1;
  }
  // A stage without bytes ends the work of the warps that multiply.
  places.empty(turn.stage).wait(turn.parity ^ 1);
  store_words(places.position(place), -1, 0);
  places.full(turn.stage).arrive();
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

// x (1 + tanh(u)) / 2 by the instruction for tanh. Its error of 2^-11 is below the rounding to bf16.
__device__ inline float gelu_tanh(float x) {
  constexpr float kA = 0.79788456f, kB = kA * 0.044715f;
  const float half = 0.5f * x;
  float tanh_of_inner;
  asm("tanh.approx.f32 %0, %1;" : "=f"(tanh_of_inner) : "f"(x * fmaf(kB, x * x, kA)));
  return fmaf(half, tanh_of_inner, half);
}

// A thread's part of a finished tile, rounded, and the position of the tile.
template <class Element>
struct Finished {
  unsigned words[kColumns / 4];
  int row, column;  // position of this warp's part

  // Adds the bias to the sums and rounds them.
  __device__ void take(const float (&sums)[kColumns / 2], bool has_bias, unsigned bias) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      float2 shift = {};
      if (has_bias) shift = unpack<Element>(load_word(bias + j * 16 + lane % 4 * 4));
      words[2 * j] = pack<Element>(sums[4 * j] + shift.x, sums[4 * j + 1] + shift.y);
      words[2 * j + 1] = pack<Element>(sums[4 * j + 2] + shift.x, sums[4 * j + 3] + shift.y);
    }
  }

  // Copies one of kParts parts into the boxes and stores the boxes that are full. Called by a whole warp.
  __device__ void store(int part, const CUtensorMap& pre_activation, const CUtensorMap& out,
                        const Places& places) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    constexpr int kPerBox = kParts * 64 / kColumns;
    if (part % kPerBox == 0) {
      if (lane == 0) wait_for_stores();
      __syncwarp();
    }
    const int box_row = lane % 16;
#pragma unroll
    for (int i = 0; i < kPartWords; i += 4) {  // 16 columns
      const int chunk = part % kPerBox * (kPartWords / 2) + i / 2 + lane / 16;
      const unsigned place = box_row * 128 + (chunk ^ (box_row % 8)) * 16;
      const unsigned* const four = words + part * kPartWords + i;
      store_matrices(places.box(warp, 0) + place, four[0], four[1], four[2], four[3]);
      unsigned results[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 pair = unpack<Element>(four[k]);
        results[k] = pack<Element>(gelu_tanh(pair.x), gelu_tanh(pair.y));
      }
      store_matrices(places.box(warp, 1) + place, results[0], results[1], results[2], results[3]);
    }
    if (part % kPerBox == kPerBox - 1) {
      show_to_copies();
      __syncwarp();
      if (lane == 0) {
        const int first = column + part / kPerBox * 64;
        store_box(pre_activation, first, row, places.box(warp, 0));
        store_box(out, first, row, places.box(warp, 1));
      }
    }
  }
};

template <class Element>
__device__ void multiply_tiles(const CUtensorMap& pre_activation, const CUtensorMap& out, const Problem& problem,
                               const Places& places) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned a_offset = warp / 4 * 64 * 128;
  const auto release = [&](int stage) {
    if (lane < kBlocks) arrive_at(places.empty(stage), lane);
  };
  Turn turn;
  Finished<Element> finished;
  bool has_finished = false;
  int place = 0;
  // Waits for the first step of the tile of this place.
  const auto find_tile = [&] {
    places.full(turn.stage).wait(turn.parity);
    return places.tile(place);
  };
  Tile tile = find_tile();
  while (tile.row >= 0) {
    float sums[kColumns / 2];
    int before = -1;  // the stage that the products still read
    const auto multiply = [&](int k) {
      places.full(turn.stage).wait(turn.parity);
      const unsigned place = places.stage(turn.stage);
      const uint64_t a = matrix_descriptor(place + a_offset), b = matrix_descriptor(place + kBytesA);
      begin_products();
#pragma unroll
      for (int i = 0; i < kDepth / 16; ++i) {  // 16 elements along k: 32 bytes of a row
        product<Element>(sums, a + i * 2, b + i * 2, k + i > 0);
      }
      commit_products();
      if (before >= 0) {
        wait_products<1>();
        release(before);
      }
      before = turn.stage;
      turn.next();
    };
    int k = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (k < problem.depth) multiply(k);
      k += kDepth;
      if (has_finished) finished.store(part, pre_activation, out, places);
    }
    for (; k < problem.depth; k += kDepth) multiply(k);
    finished.row = tile.row + warp * 16;
    finished.column = tile.column;
    const unsigned bias = places.bias(place);
    place = place_after(place);
    tile = find_tile();  // while the tensor cores work on the last step
    wait_products<0>();
    hold(sums);
    release(before);
    finished.take(sums, problem.bias != nullptr, bias);
    has_finished = true;
  }
  if (!has_finished) return;
#pragma unroll
  for (int part = 0; part < kParts; ++part) finished.store(part, pre_activation, out, places);
  if (lane == 0) wait_for_stores();
}

template <class Element>
__global__ void __launch_bounds__(kThreads, 1)
    gelu_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                     const __grid_constant__ CUtensorMap pre_activation, const __grid_constant__ CUtensorMap out,
                     const __grid_constant__ Problem problem) {
  extern __shared__ __align__(1024) char memory[];
  const Places places = {shared_address(memory)};
  if (places.memory % 1024 != 0) __trap();  // the copy engine swizzles by addresses
  const bool loads = threadIdx.x == kMultipliers * kWarp;
  unsigned number = 0;
  if (loads && block_in_cluster() == 0) number = problem.counter.take(counters);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      places.full(i).init(1);
      places.empty(i).init(kBlocks * kMultipliers);
    }
    for (int i = 0; i < kPlaces; ++i) places.numbered(i).init(1);
    fence_initialized_barriers();
  }
  __syncthreads();
  meet_cluster();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  // The block has 168 registers for each of 384 threads and cannot get more: 2 * 232 + 40 = 3 * 168.
  if (warp < kMultipliers) {
    take_registers<232>();
    multiply_tiles<Element>(pre_activation, out, problem, places);
  } else {
    give_registers<40>();
    if (loads) load_tiles(a, b, problem, places, number);
  }
  meet_cluster();  // the other block may still arrive at barriers of this one
}

template <class Element>
cudaError_t launch(const GeluGemm& g, cudaStream_t stream) {
  CUtensorMap a, b, pre_activation, out;
  // Each device has this attribute.
  cudaError_t status =
      cudaFuncSetAttribute(gelu_gemm_kernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (status == cudaSuccess) status = describe_matrix(a, g.type, g.a, g.rows, g.depth, g.a_distance, kRows);
  if (status == cudaSuccess) {
    status = describe_matrix(b, g.type, g.b, g.columns, g.depth, g.b_distance, kColumns / kBlocks);
  }
  if (status == cudaSuccess) {
    status = describe_matrix(pre_activation, g.type, g.pre_activation, g.rows, g.columns, g.out_distance, 16);
  }
  if (status == cudaSuccess) status = describe_matrix(out, g.type, g.out, g.rows, g.columns, g.out_distance, 16);
  if (status != cudaSuccess) return status;
  Problem problem = {g.bias, static_cast<int>(g.rows), static_cast<int>(g.columns), static_cast<int>(g.depth), {}};
  const auto clusters = static_cast<unsigned>(multiprocessors() / kBlocks);
  // Every cluster takes one number after its last tile.
  problem.counter.takes = static_cast<unsigned>(Tiles(problem.rows, problem.columns).count()) + clusters;
  status = WorkCounters::instance().find(stream, problem.counter.index);
  if (status != cudaSuccess) return status;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * kBlocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kShared;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kBlocks, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, gelu_gemm_kernel<Element>, a, b, pre_activation, out, problem);
}

}  // namespace

cudaError_t launch_gelu_gemm(const GeluGemm& gemm, cudaStream_t stream) {
  if (gemm.type == CudaType::float32) return cudaErrorInvalidValue;
  return gemm.type == CudaType::bfloat16 ? launch<__nv_bfloat16>(gemm, stream) : launch<__half>(gemm, stream);
}

}  // namespace strata::kernels
