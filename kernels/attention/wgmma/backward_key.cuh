// SPDX-License-Identifier: MIT
// Gradients of keys and values. An item is 128 keys of a key head; its steps are 64 queries of each query head that
// shares them. Scores are transposed, [key, query], so that probabilities and gradients of scores stay in registers as
// A of the products that add them up. Nothing is added by two blocks.
#pragma once

#include "kernels/attention/wgmma/tile_work.cuh"

namespace strata::kernels {

struct KeyMaps {
  CUtensorMap query, key, value, grad_y, grad_key, grad_value;
};

// kAhead: scores of a step begin before the products of the step before have ended.
template <class T, int kHead, int kStageCount, int kTileCount, bool kGoesAhead>
struct KeyKernel {
  using Element = T;
  static constexpr int kWidth = kHead, kStages = kStageCount, kTiles = kTileCount;
  static constexpr bool kAhead = kGoesAhead;
  static constexpr int kBlock = kWidth / 64 * kBoxBytes;  // 64 rows of a head
  static constexpr int kTile = 2 * kMultipliers * kBlock, kStage = 2 * kBlock, kStatistics = 512;
  using Barriers = WorkBarriers<kStages, kTiles>;
  static constexpr int kStagesAt = kTiles * kTile, kStatisticsAt = kStagesAt + kStages * kStage;
  static constexpr int kProgramAt = kStatisticsAt + kStages * kStatistics;
  static constexpr int kStackAt = kProgramAt + kMostProgramWords * 4;
  static constexpr int kBarriersAt = kStackAt + kProgramStack * 4 * kMultipliers * kWarpgroup;
  static constexpr int kShared = kBarriersAt + Barriers::kBytes;
  static_assert(kShared <= 227 * 1024);
};

// One thread loads the keys and values of items, and another one their steps.
template <class K>
__device__ void load_keys(const KeyMaps& maps, const TileWork& work, unsigned memory) {
  const typename K::Barriers barriers = {memory + K::kBarriersAt};
  Turn<K::kTiles> tile;
  Turn<K::Barriers::kNotes> note;
  for (int number = static_cast<int>(blockIdx.x); number < work.items(); number += static_cast<int>(gridDim.x)) {
    const WorkItem item = find_item(work, number);
    const SharedBarrier full = barriers.tile_full(tile.place);
    barriers.tile_empty(tile.place).wait(tile.parity ^ 1);
    ItemNote{item.tile * kOwnRows, item.sequence, item.head, (item.end_step - item.first_step) * work.shared_by}.store(
        barriers.note(note.place));
    const Sequence sequence = work.of(item.sequence);
    full.arrive_expecting(K::kTile);
#pragma unroll 1
    for (int i = 0; i < kMultipliers; ++i) {
      const unsigned to = memory + tile.place * K::kTile + i * 2 * K::kBlock;
      const int row = item.tile * kOwnRows + i * 64;
      load_head<K::kWidth>(to, maps.key, item.head, row, sequence, full);
      load_head<K::kWidth>(to + K::kBlock, maps.value, item.head, row, sequence, full);
    }
    tile.next();
    note.next();
  }
  barriers.tile_empty(tile.place).wait(tile.parity ^ 1);
  ItemNote{-1, 0, 0, 0}.store(barriers.note(note.place));
  barriers.tile_full(tile.place).arrive();
}

template <class K>
__device__ void load_steps_of_keys(const KeyMaps& maps, const TileWork& work, const float* statistics,
                                   unsigned memory) {
  const typename K::Barriers barriers = {memory + K::kBarriersAt};
  Turn<K::kStages> stage;
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < work.items(); number += static_cast<int>(gridDim.x)) {
    const WorkItem item = find_item(work, number);
    const Sequence sequence = work.of(item.sequence);
    int head = item.head * work.shared_by;
    int part = (item.sequence * work.query_heads + head) * work.query_parts;
    const int end_head = item.first_step < item.end_step ? head + work.shared_by : head;
#pragma unroll 1
    for (; head < end_head; ++head, part += work.query_parts) {
      unsigned next = work.steps.words[item.first_step];
#pragma unroll 1
      for (int i = item.first_step; i < item.end_step; ++i) {
        const StepWord step = {next};
        if (i + 1 < item.end_step) next = work.steps.words[i + 1];
        const SharedBarrier full = barriers.full(stage.place);
        const unsigned to = memory + K::kStagesAt + stage.place * K::kStage;
        barriers.empty(stage.place).wait(stage.parity ^ 1);
        store_word(barriers.step(stage.place), step.word);
        full.arrive_expecting(K::kStage + K::kStatistics);
        load_head<K::kWidth>(to, maps.query, head, step.tile() * 64, sequence, full);
        load_head<K::kWidth>(to + K::kBlock, maps.grad_y, head, step.tile() * 64, sequence, full);
        copy_bulk(memory + K::kStatisticsAt + stage.place * K::kStatistics,
                  statistics + static_cast<int64_t>(part + step.tile()) * 128, K::kStatistics, full);
        stage.next();
      }
    }
  }
}

template <class K>
__device__ void multiply_for_keys(const KeyMaps& maps, const TileWork& work, unsigned memory) {
  using T = typename K::Element;
  constexpr int kWidth = K::kWidth;
  const typename K::Barriers barriers = {memory + K::kBarriersAt};
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int own_column = lane % 4 * 2;
  const auto release = [&](int place) {
    if (lane == 0) barriers.empty(place).arrive();
  };
  Turn<K::kStages> stage;
  Turn<K::kTiles> tile;
  Turn<K::Barriers::kNotes> note_turn;
  while (true) {
    barriers.tile_full(tile.place).wait(tile.parity);
    const unsigned note = barriers.note(note_turn.place);
    if (ItemNote::load(note).row < 0) break;
    int steps = ItemNote::load(note).steps;
    const unsigned key = memory + tile.place * K::kTile + warpgroup * 2 * K::kBlock, value = key + K::kBlock;
    float grad_key[kWidth / 2], grad_value[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) grad_key[i] = grad_value[i] = 0;
    int before = -1;  // the stage that products still read
    for (; steps > 0; --steps) {
      barriers.full(stage.place).wait(stage.parity);
      const StepWord step = {static_cast<unsigned>(load_shared_int(barriers.step(stage.place)))};
      const PartShare share = step.share(warpgroup);
      if (share == PartShare::none) {
        if (K::kAhead && before >= 0) {  // or the loading thread might wait for that stage
          wait_products<0>();
          release(before);
          before = -1;
        }
        __syncwarp();  // all lanes have read the step's word
        release(stage.place);
        stage.next();
        continue;
      }
      const unsigned query = memory + K::kStagesAt + stage.place * K::kStage, grad_y = query + K::kBlock;
      const unsigned statistics = memory + K::kStatisticsAt + stage.place * K::kStatistics + own_column * 4;
      float p[32], d[32];
      begin_products();
      multiply_rows<T, kWidth>(p, key, query);
      commit_products();
      multiply_rows<T, kWidth>(d, value, grad_y);
      commit_products();
      unsigned seen = ~0u;
      if (share == PartShare::some) {
        const ItemNote item = ItemNote::load(note);
        const ThreadPairs<false> pairs = {item.row + warpgroup * 64 + warp * 16 + lane / 4,
                                          work.pattern.first_query + step.tile() * 64 + lane % 4 * 2};
        seen = pairs.bits(work.pattern, memory + K::kProgramAt,
                          work.pattern.documents + static_cast<int64_t>(item.sequence) * work.pattern.keys,
                          memory + K::kStackAt + threadIdx.x * 4, kMultipliers * kWarpgroup * 4);
      }
      wait_products<1>();
      hold(p);
      if constexpr (K::kAhead) {
        if (before >= 0) release(before);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 row_sum = load_pair(statistics + j * 32);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[4 * j + i] = power_of_two(p[4 * j + i] * work.power_scale - (i % 2 == 0 ? row_sum.x : row_sum.y));
        }
      }
      if (share == PartShare::some) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if ((seen >> (i / 2 % 2 * 16 + i / 4 * 2 + i % 2) & 1) == 0) p[i] = 0;
        }
      }
      unsigned words[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) words[i] = packed<T>(p[2 * i], p[2 * i + 1]);
      begin_products();
      add_product<T, kWidth>(grad_value, words, grad_y);
      commit_products();
      wait_products<1>();
      hold(d);
      unsigned changes[16];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 delta = load_pair(statistics + 256 + j * 32);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          changes[2 * j + i] = packed<T>(p[4 * j + 2 * i] * (d[4 * j + 2 * i] - delta.x),
                                         p[4 * j + 2 * i + 1] * (d[4 * j + 2 * i + 1] - delta.y));
        }
      }
      begin_products();
      add_product<T, kWidth>(grad_key, changes, query);
      commit_products();
      if constexpr (K::kAhead) {
        before = stage.place;
      } else {
        wait_products<0>();
        release(stage.place);
      }
      stage.next();
    }
    wait_products<0>();
    hold(grad_key);
    hold(grad_value);
    if (K::kAhead && before >= 0) release(before);
    meet(1 + warpgroup, kWarpgroup);  // all warps have read the keys and values
    store_fragments<T, kWidth>(grad_key, work.scale, key);
    store_fragments<T, kWidth>(grad_value, 1, value);
    show_to_copies();
    __syncwarp();
    if (lane == 0) {
      const ItemNote item = ItemNote::load(note);
      const int row = item.row + warpgroup * 64 + warp * 16;
      const Sequence sequence = work.of(item.sequence);
#pragma unroll
      for (int i = 0; i < kWidth / 64; ++i) {
        const int column = item.head * kWidth + i * 64;
        store_rows(maps.grad_key, column, row, sequence, key + i * kBoxBytes + warp * 2048);
        store_rows(maps.grad_value, column, row, sequence, value + i * kBoxBytes + warp * 2048);
      }
      commit_stores();
      wait_for_stores();
      barriers.tile_empty(tile.place).arrive();
    }
    __syncwarp();
    tile.next();
    note_turn.next();
  }
}

template <class K>
__global__ void __launch_bounds__(kBackwardThreads, 1)
    attention_key_kernel(const __grid_constant__ KeyMaps maps, const __grid_constant__ TileWork work,
                         const float* statistics) {
  extern __shared__ __align__(1024) char shared[];
  const unsigned memory = shared_address(shared);
  if (memory % 1024 != 0) __trap();  // the copy engine swizzles by addresses
  if (threadIdx.x == 0) typename K::Barriers{memory + K::kBarriersAt}.init();
  int* const program = reinterpret_cast<int*>(shared + K::kProgramAt);
  if (threadIdx.x < 3 * work.pattern.instructions) program[threadIdx.x] = work.pattern.program[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < kMultipliers * kWarpgroup) {
    take_registers<K::kWidth == 64 ? 216 : 240>();
    multiply_for_keys<K>(maps, work, memory);
  } else {
    give_registers<K::kWidth == 64 ? 72 : 24>();
    if (threadIdx.x == kMultipliers * kWarpgroup) load_keys<K>(maps, work, memory);
    if (threadIdx.x == kMultipliers * kWarpgroup + 32) load_steps_of_keys<K>(maps, work, statistics, memory);
  }
}

}  // namespace strata::kernels
