// SPDX-License-Identifier: MIT
// The kernel of cross_entropy for long rows on Hopper: the blocks of a cluster hold a row in their shared memory.
#pragma once

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy_row.cuh"
#include "kernels/cuda/bulk_ring.cuh"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/row_range.cuh"

namespace strata::kernels {

// With three vectors per thread, the exponentials of one are computed while others wait: 65536 x 50304 at 3.8 TB/s,
// with two vectors 3.6, with one 3.2.
inline constexpr int kRingWarps = 16, kLaneVectors = 3, kMaxClusterBlocks = 8;
inline constexpr int kRingThreads = kRingWarps * kWarp, kStageVectors = kRingThreads * kLaneVectors;
inline constexpr int kStageBytes = kStageVectors * sizeof(uint4), kStages = 216 * 1024 / kStageBytes;

// The vectors of a row that this block of the cluster computes.
struct RowShare {
  int first, count;

  __device__ int stages() const { return (count + kStageVectors - 1) / kStageVectors; }
};

__device__ inline RowShare share_of_block(int vectors_in_row, int rank, int blocks) {
  const int first = vectors_in_row * rank / blocks;
  return {first, vectors_in_row * (rank + 1) / blocks - first};
}

// Thread 0 sends the rows of this block through the ring and skips rows that are ignored.
template <class T>
class RowSender {
 public:
  __device__ RowSender(const CrossEntropyArguments& a, const RingBarriers<kStages>& barriers, unsigned ring,
                       const RowShare& share, const RowRange& range)
      : a_(a),
        barriers_(barriers),
        ring_(ring),
        share_(share),
        range_(range),
        row_(range.begin),
        target_(target_of(range.begin)),
        next_target_(target_of(range.begin + range.step)) {}

  __device__ void send() {
    if (threadIdx.x != 0) return;
    while (row_ < range_.end && target_ == a_.ignore_index) next_row();
    if (row_ >= range_.end) return;
    const SharedBarrier full = barriers_.full(at_.stage);
    const int vectors = min(kStageVectors, share_.count - sent_), bytes = vectors * static_cast<int>(sizeof(uint4));
    barriers_.empty(at_.stage).wait(at_.turn ^ 1);
    full.arrive_expecting(bytes);
    const uint4* row = static_cast<const uint4*>(a_.logits) + row_ * (a_.columns / kVectorWidth<T>);
    copy_bulk(ring_ + at_.stage * kStageBytes, row + share_.first + sent_, bytes, full);
    at_.advance(kStages);
    sent_ += vectors;
    if (sent_ == share_.count) next_row();
  }

 private:
  // Targets are loaded one row ahead, so that no thread waits for them.
  __device__ int64_t target_of(int64_t row) const { return row < range_.end ? a_.targets[row] : 0; }

  __device__ void next_row() {
    sent_ = 0;
    row_ += range_.step;
    target_ = next_target_;
    next_target_ = target_of(row_ + range_.step);
  }

  const CrossEntropyArguments& a_;
  const RingBarriers<kStages>& barriers_;
  unsigned ring_;
  const RowShare& share_;
  const RowRange& range_;
  int64_t row_, target_, next_target_;
  int sent_ = 0;  // vectors of the row
  RingPosition at_;
};

// Exchanges the blocks' parts of a row within a cluster.
class ClusterParts {
 public:
  __device__ ClusterParts() {
    __shared__ LogitSums parts[2][kMaxClusterBlocks];
    __shared__ uint64_t come[2];
    parts_ = parts[0];
    come_ = {shared_address(come)};
    if (threadIdx.x == 0) {
      turn_barrier(0).init(1);
      turn_barrier(1).init(1);
      fence_initialized_barriers();
    }
    meet_cluster();
  }

  // `turn` is as in block_merge. `parity` flips each time that the same turn comes again.
  __device__ LogitSums merge(const LogitSums& own, int rank, int blocks, int turn, int parity) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    LogitSums* parts = parts_ + turn * kMaxClusterBlocks;
    const SharedBarrier come = turn_barrier(turn);
    if (threadIdx.x == 0) come.arrive_expecting(blocks * static_cast<int>(sizeof(LogitSums)));
    if (static_cast<int>(threadIdx.x) < blocks) {
      asm volatile(
          "{\n.reg .b32 part, barrier;\n"
          "mapa.shared::cluster.u32 part, %0, %2;\n"
          "mapa.shared::cluster.u32 barrier, %1, %2;\n"
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [part], {%3, %4, %5, %6}, [barrier];\n}" ::"r"(
              shared_address(parts + rank)),
          "r"(come.address), "r"(threadIdx.x), "r"(__float_as_uint(own.largest)),
          "r"(__float_as_uint(own.exponentials)), "r"(__float_as_uint(own.logits)),
          "r"(__float_as_uint(own.target_logit))
          : "memory");
    }
    come.wait_for_cluster(parity);
    return warp_merge(lane < blocks ? parts[lane] : LogitSums::nothing());
  }

 private:
  __device__ SharedBarrier turn_barrier(int turn) const { return {come_.address + 8 * turn}; }

  LogitSums* parts_;
  SharedBarrier come_;
};

// For long rows: the blocks of a cluster hold a row in their shared memory while the next one is loaded.
template <class T>
__global__ void __launch_bounds__(kRingThreads) ring_kernel(const CrossEntropyArguments a) {
  constexpr int N = kVectorWidth<T>;
  extern __shared__ uint4 ring_memory[];
  const int blocks = cluster_blocks(), rank = static_cast<int>(blockIdx.x) % blocks;
  const int thread = static_cast<int>(kept(threadIdx.x));
  const int64_t vectors_in_row = a.columns / N;
  const RowRange range(a.rows, 1, static_cast<int>(gridDim.x) / blocks, static_cast<int>(blockIdx.x) / blocks, a.waves);
  const RowShare share = share_of_block(static_cast<int>(vectors_in_row), rank, blocks);
  const int stages = share.stages();
  // The elements of this block's share that label smoothing sums up.
  const int summed = a.label_smoothing != 0.0f
                         ? min(static_cast<int>(a.classes), (share.first + share.count) * N) - share.first * N
                         : 0;
  const RingBarriers<kStages> barriers(kStages, kRingWarps);
  const unsigned ring = shared_address(ring_memory), own = kept(ring + thread * sizeof(uint4));
  const ClusterParts cluster;
  RowSender<T> sender(a, barriers, ring, share, range);
  for (int i = 0; i < kStages; ++i) sender.send();
  const float scale = *a.scale;
  // True once the sender is one stage after the readers, so that it does not wait for the last warp.
  bool behind = false;
  const auto release = [&](int stage) {
    barriers.release(stage, thread % kWarp == 0);
    if (behind) sender.send();
    behind = true;
  };
  // Loads this thread's vectors of a stage. Vectors past the end of the row are -inf, whose exponential is 0.
  const auto load = [&](Packed<T>(&x)[kLaneVectors], int ring_stage, int row_stage) {
#pragma unroll
    for (int v = 0; v < kLaneVectors; ++v) {
      const int i = row_stage * kStageVectors + v * kRingThreads + thread;
      x[v].words = load_shared(own + ring_stage * kStageBytes + v * kRingThreads * sizeof(uint4));
      if (i >= share.count) x[v].fill([](int) { return -INFINITY; });
    }
  };
  RingPosition at;
  int turn = 0, parity = 0;
  int64_t next_target = range.begin < range.end ? a.targets[range.begin] : 0;
  for (int64_t row = range.begin; row < range.end; row += range.step) {
    const int64_t target = next_target;
    if (row + range.step < range.end) next_target = a.targets[row + range.step];
    uint4* gradient = static_cast<uint4*>(a.gradient) + row * vectors_in_row + share.first;
    if (target == a.ignore_index) {
      if (a.gradient != nullptr) {
        for (int i = thread; i < share.count; i += kRingThreads) __stcs(gradient + i, uint4{});
      }
      if (rank == 0 && thread == 0) a.row_losses[row] = 0.0f;
      continue;
    }
    require_class(target, a);
    const int target_here = static_cast<int>(target) - share.first * N;  // index in this block's share
    const RingPosition start = at;
    LogitSums part = LogitSums::nothing();
    for (int stage = 0; stage < stages; ++stage, at.advance(kStages)) {
      barriers.full(at.stage).wait(at.turn);
      Packed<T> x[kLaneVectors];
      load(x, at.stage, stage);
      add(part, x, summed - (stage * kStageVectors + thread) * N, kRingThreads * N);
#pragma unroll
      for (int v = 0; v < kLaneVectors; ++v) {
        const int first = (stage * kStageVectors + v * kRingThreads + thread) * N;
        if (target_here < first || target_here >= first + N || target_here >= share.count * N) continue;
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (first + k == target_here) part.target_logit = x[v].at(k);
        }
      }
      if (a.gradient == nullptr) release(at.stage);
    }
    part = block_merge(part, turn);
    if (blocks > 1) part = cluster.merge(part, rank, blocks, turn, parity);
    parity ^= turn;
    turn ^= 1;
    const Row result = finish(part, scale, a);
    if (rank == 0 && thread == 0) a.row_losses[row] = result.loss;
    if (a.gradient == nullptr) continue;
    RingPosition again = start;
    for (int stage = 0; stage < stages; ++stage, again.advance(kStages)) {
      Packed<T> x[kLaneVectors];
      load(x, again.stage, stage);
#pragma unroll
      for (int v = 0; v < kLaneVectors; ++v) {
        const int i = stage * kStageVectors + v * kRingThreads + thread;
        if (i < share.count) store_gradient(gradient, i, x[v], result, target_here);
      }
      release(again.stage);
    }
  }
  meet_cluster();  // no block may exit while another may write to its shared memory
}

template <class T>
cudaError_t launch_ring(const CrossEntropyArguments& a, int blocks, cudaStream_t stream) {
  constexpr int kBytes = kStages * kStageBytes;
  cudaError_t status = cudaFuncSetAttribute(ring_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kRingThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  // Number of clusters that run at once. A cluster lies in one GPC of the chip, and only 128 of an H100's 132
  // multiprocessors can hold clusters of 4 and of 8, because GPCs have 16 or 18 of them.
  static NumberOfGpu most_clusters[kMaxClusterBlocks + 1];
  int most = 0;
  status = most_clusters[blocks].find(
      most, [&](int, int& number) { return cudaOccupancyMaxActiveClusters(&number, ring_kernel<T>, &config); });
  if (status != cudaSuccess) return status;
  const int64_t clusters = std::clamp(multiprocessors() / blocks, 1, std::max(most, 1));
  config.gridDim.x *= static_cast<unsigned>(a.waves == 1 ? std::min(a.rows, clusters) : a.waves * clusters);
  return cudaLaunchKernelEx(&config, ring_kernel<T>, a);
}

// Returns the number of blocks that share a row so that the ring holds one and a half rows, or 0 if the row is too
// long.
inline int cluster_blocks_for(int64_t vectors) {
  for (int blocks = 1; blocks <= kMaxClusterBlocks; blocks *= 2) {
    if (ceil_divide<int64_t>(vectors, blocks * kStageVectors) <= kStages * 2 / 3) return blocks;
  }
  return 0;
}

}  // namespace strata::kernels
