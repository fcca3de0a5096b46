// SPDX-License-Identifier: MIT
// ForwardKernel: the sizes of a forward kernel, and where each thing is in its shared memory.
#pragma once

#include "kernels/attention/wgmma/boxes.cuh"
#include "kernels/attention/wgmma/forward_work.cuh"

namespace strata::kernels {

// Boxes of 64 columns: of 64 queries, of a tile of keys, and of 16 rows of y.
struct ForwardMaps {
  CUtensorMap query, key, value, y;
};

// kTakeTurns: warpgroups start the products of a step one after the other.
template <class T, int kHead, int kGroups, int kTile, int kStageCount, bool kTakeTurns>
struct ForwardKernel {
  using Element = T;
  static constexpr int kWidth = kHead, kWarpgroups = kGroups, kKeys = kTile, kStages = kStageCount;
  static constexpr bool kTurns = kTakeTurns;
  static constexpr int kParts = kKeys / kPart, kBoxes = kWidth / 64, kWarps = 4 * kWarpgroups;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr int kBlock = kBoxes * 64 * 128;                          // queries of a warpgroup
  static constexpr int kKeyBox = kKeys * 128, kKeyTile = kBoxes * kKeyBox;  // keys of a step, or values
  using Flags = StepFlags<kWarpgroups, kParts>;

  // Offsets in shared memory.
  static constexpr int kItems = 2, kPlanned = 16;  // places for queries, which become results, and for planned steps
  static constexpr int kKeysAt = kItems * kWarpgroups * kBlock, kValuesAt = kKeysAt + kStages * kKeyTile;
  static constexpr int kProgramAt = kValuesAt + kStages * kKeyTile;
  static constexpr int kStackAt = kProgramAt + kMostProgramWords * 4;
  static constexpr int kStackStep = kWarpgroups * 128 * 4;
  static constexpr int kBarriersAt = kStackAt + kProgramStack * kStackStep;
  static constexpr int kBarriers = 4 * kStages + 2 * kItems + 2 * kPlanned;
  static constexpr int kPlanAt = kBarriersAt + kBarriers * 8;
  static constexpr int kItemsAt = kPlanAt + kPlanned * 32, kWordsAt = kItemsAt + kItems * 16;
  static constexpr int kShared = kWordsAt + kStages * 8;
  static_assert(kShared <= 227 * 1024);

  // Consumers have what the block's 64 K registers leave them.
  static constexpr int kConsumerRegisters = kWarpgroups == 3 ? 160 : 232;
  static constexpr int kProducerRegisters = kWarpgroups == 3 ? 32 : 40;
};

template <class K>
struct ForwardPlaces {
  unsigned memory;

  __device__ unsigned query(int item, int warpgroup) const {
    return memory + (item * K::kWarpgroups + warpgroup) * K::kBlock;
  }
  __device__ unsigned key(int stage) const { return memory + K::kKeysAt + stage * K::kKeyTile; }
  __device__ unsigned value(int stage) const { return memory + K::kValuesAt + stage * K::kKeyTile; }
  __device__ unsigned program() const { return memory + K::kProgramAt; }
  __device__ SharedBarrier barrier(int i) const { return {memory + K::kBarriersAt + i * 8}; }
  __device__ SharedBarrier key_full(int stage) const { return barrier(stage); }
  __device__ SharedBarrier key_empty(int stage) const { return barrier(K::kStages + stage); }
  __device__ SharedBarrier value_full(int stage) const { return barrier(2 * K::kStages + stage); }
  __device__ SharedBarrier value_empty(int stage) const { return barrier(3 * K::kStages + stage); }
  __device__ SharedBarrier query_full(int item) const { return barrier(4 * K::kStages + item); }
  __device__ SharedBarrier query_empty(int item) const { return barrier(4 * K::kStages + K::kItems + item); }
  __device__ SharedBarrier planned(int i) const { return barrier(4 * K::kStages + 2 * K::kItems + i); }
  __device__ SharedBarrier plan_read(int i) const { return planned(K::kPlanned + i); }
  __device__ unsigned plan(int i) const { return memory + K::kPlanAt + i * 32; }
  __device__ unsigned item(int i) const { return memory + K::kItemsAt + i * 16; }
  __device__ unsigned word(int stage) const { return memory + K::kWordsAt + stage * 8; }

  __device__ void init() const {
    for (int i = 0; i < K::kStages; ++i) {
      key_full(i).init(1), value_full(i).init(1);
      key_empty(i).init(K::kWarps), value_empty(i).init(K::kWarps);
    }
    for (int i = 0; i < K::kItems; ++i) query_full(i).init(1), query_empty(i).init(K::kWarps);
    for (int i = 0; i < K::kPlanned; ++i) planned(i).init(1), plan_read(i).init(1);
    fence_initialized_barriers();
  }
};

}  // namespace strata::kernels
