// SPDX-License-Identifier: MIT
// Steps: the lists of tiles as the kernels of gradients read them. A word is a tile of the list and the shares of its
// two parts of 64 x 64 pairs, so that a warpgroup skips its part without a visible pair. Tiles without any are left
// out.
#pragma once

#include "kernels/attention/wgmma/backward.h"
#include "kernels/attention/wgmma/pattern_bits.cuh"

namespace strata::kernels {

inline constexpr int kTileBits = 27;

// A word: the tile, then two bits for the share of each warpgroup's part.
struct StepWord {
  unsigned word;

  __device__ int tile() const { return static_cast<int>(word & ((1u << kTileBits) - 1)); }
  __device__ PartShare share(int warpgroup) const {
    return static_cast<PartShare>(word >> (kTileBits + 2 * warpgroup) & 3);
  }
  __device__ bool has_pairs() const { return word >> kTileBits != 0; }
};

struct StepLists {
  int4* rows = nullptr;  // [sequences, tiles]: a tile, where its steps start, and where they end
  unsigned* words = nullptr;
};

// A warp has one row of the lists of a sequence. `own_are_queries`: rows are tiles of queries.
__device__ inline void write_steps(const TileListsOnDevice& lists, const StepLists& steps, const PairPattern& pattern,
                                   unsigned program, bool own_are_queries, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32, sequence = row / lists.tiles;
  const int4 list = reinterpret_cast<const int4*>(lists.rows)[row % lists.tiles];
  const int* const documents = pattern.documents + static_cast<int64_t>(sequence) * pattern.keys;
  const int first = sequence * lists.capacity + list.y;
  int place = first;
  for (int base = list.y; base < list.w; base += 32) {
    const int i = base + lane;
    unsigned word = 0;
    if (i < list.w) {
      const int tile = lists.indices[i];
      unsigned shares = 10;  // all pairs of both
      if (i < list.z || pattern.documents != nullptr) {
        shares = 0;
        for (int part = 0; part < 2; ++part) {
          const int own_row = list.x * kOwnRows + part * kPart, other_row = tile * kOtherRows;
          const int query = pattern.first_query + (own_are_queries ? own_row : other_row);
          const int key = own_are_queries ? other_row : own_row;
          shares |= static_cast<unsigned>(part_share(pattern, program, documents, query, key)) << (2 * part);
        }
      }
      word = static_cast<unsigned>(tile) | shares << kTileBits;
    }
    const bool kept = StepWord{word}.has_pairs();
    const unsigned found = __ballot_sync(0xffffffff, kept);
    if (kept) steps.words[place + __popc(found & ((1u << lane) - 1))] = word;
    place += __popc(found);
  }
  if (lane == 0) steps.rows[row] = {list.x, first, place, 0};
}

inline constexpr int kStepThreads = 128;

static __global__ void __launch_bounds__(kStepThreads)
    attention_steps_kernel(const TileListsOnDevice by_query, const StepLists query_steps, int query_rows,
                           const TileListsOnDevice by_key, const StepLists key_steps, int key_rows,
                           const PairPattern pattern) {
  __shared__ int program[kMostProgramWords];
  if (threadIdx.x < 3 * pattern.instructions) program[threadIdx.x] = pattern.program[threadIdx.x];
  __syncthreads();
  const int row = static_cast<int>(blockIdx.x * (kStepThreads / 32) + threadIdx.x / 32);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(program));
  if (row < query_rows) {
    write_steps(by_query, query_steps, pattern, address, true, row);
  } else if (row < query_rows + key_rows) {
    write_steps(by_key, key_steps, pattern, address, false, row - query_rows);
  }
}

}  // namespace strata::kernels
