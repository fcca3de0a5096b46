// SPDX-License-Identifier: MIT
// The work of a block of threads: items, each a tile of 128 own rows (queries or keys) of a head, and their steps, each
// 64 rows of the other side. One warp loads; two warpgroups multiply, each for 64 of the own rows.
#pragma once

#include "kernels/attention/wgmma/backward_steps.cuh"
#include "kernels/attention/wgmma/boxes.cuh"

namespace strata::kernels {

inline constexpr int kMultipliers = 2, kWarpgroup = 128, kBackwardThreads = (kMultipliers + 1) * kWarpgroup;

// What all blocks of a launch know.
struct TileWork {
  StepLists steps;
  int tiles = 0;
  bool has_list_per_sequence = false;
  PairPattern pattern;
  int sequences = 0, step = 1;  // a row of the batch has `step` sequences
  int heads = 0;                // those that have items, query or key heads
  int shared_by = 1;            // query heads of a key head
  int query_heads = 0, query_parts = 0;
  int neighbors_per_tile = 1;        // how many sequences and heads have the same tile one after the other
  float scale = 1, power_scale = 1;  // of scores; of scores as powers of two

  __host__ __device__ int items() const { return sequences * heads * tiles; }
  __device__ Sequence of(int sequence) const {
    return step == 1 ? Sequence{sequence, 0} : Sequence{sequence / step, sequence % step};
  }
};

struct WorkItem {
  int sequence, head, tile, first_step, end_step;
};

__device__ inline WorkItem find_item(const TileWork& work, int number) {
  const int group = work.neighbors_per_tile * work.tiles;
  const int place = number / group * work.neighbors_per_tile + number % work.neighbors_per_tile;
  const int rank = number % group / work.neighbors_per_tile, sequence = place / work.heads;
  const int4 row = work.steps.rows[(work.has_list_per_sequence ? sequence : 0) * work.tiles + rank];
  return {sequence, place % work.heads, row.x, row.y, row.z};
}

// Shared memory of a kernel: `kTiles` places for the own rows of an item, and `kStages` for steps.
template <int kStages, int kTiles>
struct WorkBarriers {
  static constexpr int kNotes = kTiles + 1;  // an item is noted before the one before it has ended
  static constexpr int kItems = (2 * kStages + 2 * kTiles) * 8, kWords = kItems + kNotes * 16;
  static constexpr int kBytes = kWords + kStages * 4;
  unsigned memory;

  __device__ SharedBarrier full(int stage) const { return {memory + stage * 8}; }
  __device__ SharedBarrier empty(int stage) const { return {memory + (kStages + stage) * 8}; }
  __device__ SharedBarrier tile_full(int place) const { return {memory + (2 * kStages + place) * 8}; }
  __device__ SharedBarrier tile_empty(int place) const { return {memory + (2 * kStages + kTiles + place) * 8}; }
  __device__ unsigned note(int place) const { return memory + kItems + place * 16; }
  __device__ unsigned step(int stage) const { return memory + kWords + stage * 4; }

  // Called by one thread.
  __device__ void init() const {
    for (int i = 0; i < kStages; ++i) full(i).init(1), empty(i).init(kMultipliers * 4);
    for (int i = 0; i < kTiles; ++i) tile_full(i).init(1), tile_empty(i).init(kMultipliers * 4);
    fence_initialized_barriers();
  }
};

// What the multiplying warps learn of an item. Row -1 comes after the last one.
struct ItemNote {
  int row, sequence, head, steps;

  __device__ void store(unsigned place) const {
    store_words(place, row, sequence);
    store_words(place + 8, head, steps);
  }
  __device__ static ItemNote load(unsigned place) {
    return {load_shared_int(place), load_shared_int(place + 4), load_shared_int(place + 8),
            load_shared_int(place + 12)};
  }
};

__device__ inline void store_word(unsigned place, unsigned word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(place), "r"(word) : "memory");
}

// The position in a ring of kCount places, and the parity of the round.
template <int kCount>
struct Turn {
  int place = 0;
  unsigned parity = 0;
  __device__ void next() {
    if (++place == kCount) {
      place = 0;
      parity ^= 1;
    }
  }
};

}  // namespace strata::kernels
