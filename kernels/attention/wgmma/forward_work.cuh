// SPDX-License-Identifier: MIT
// The work of a block of the forward: items, each a tile of 64 queries for every warpgroup of one head, and their
// steps, each a tile of keys. One warp of the block finds them and says for each warpgroup what it sees of a step.
#pragma once

#include "kernels/attention/pattern/tile_words.h"
#include "kernels/attention/wgmma/pattern_bits.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/work_counter.cuh"

namespace strata::kernels {

// What all blocks of a launch know. A sequence is the positions of one residue of a row of the batch; without residues
// it is the row.
struct ForwardWork {
  const int* rows = nullptr;   // [tiles, 4]: a tile of queries, and where its steps begin and end in `steps`
  const int* steps = nullptr;  // 2 * tile of keys, + 1 if all pairs are visible to all queries of one document
  PairPattern pattern;
  TileWords words;  // the same pattern
  WorkCounter counter;
  int tiles = 0, batch = 0, heads = 0, shared_by = 1;
  int residues = 1;
  int together = 1;  // sequences and heads that have the same tile one after the other
  bool has_documents = false, documents_apart = false;
  float scale = 1;               // of products, in powers of two
  const float* sinks = nullptr;  // [H], or null
  float* logsumexp = nullptr;    // [B, H, Q]
  int queries = 0;               // of a row

  __host__ __device__ int items() const { return tiles * batch * residues * heads; }
};

struct ForwardItem {
  int sequence, head, tile, first, last;
};

__device__ inline ForwardItem find_item(const ForwardWork& work, int number) {
  const int group = work.together * work.tiles;
  const int place = number / group * work.together + number % work.together, rank = number % group / work.together;
  const int4 row = reinterpret_cast<const int4*>(work.rows)[rank];
  return {place / work.heads, place % work.heads, row.x, row.y, row.z};
}

// A step as its tile and flags: bit 31 marks the last one of an item, and each warpgroup has 2 bits for each 64 keys.
template <int kWarpgroups, int kParts>
struct StepFlags {
  static constexpr unsigned kLast = 1u << 31, kAll = (1u << 2 * kParts) - 1;
  unsigned flags;

  __device__ unsigned of(int warpgroup) const { return flags >> (2 * kParts * warpgroup) & kAll; }
  __device__ static PartShare share(unsigned own, int part) { return static_cast<PartShare>(own >> (2 * part) & 3); }
  // Of a warpgroup that sees all pairs.
  static constexpr unsigned kWhole = kAll / 3 * 2;
};

// Calls step(tile, flags, is_first) for the steps of an item that have a visible pair, the last tile of keys first. All
// lanes of a warp call it. An item without such steps has one whose flags are 0.
template <int kWarpgroups, int kParts, class Step>
__device__ void visit_steps(const ForwardWork& work, const ForwardItem& item, unsigned program, Step step) {
  using Flags = StepFlags<kWarpgroups, kParts>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int* const documents = work.pattern.documents + static_cast<int64_t>(item.sequence) * work.pattern.keys;
  const int first_query = work.pattern.first_query + item.tile * kWarpgroups * kPart;
  int waiting_tile = 0;
  unsigned waiting = 0;
  bool has_waiting = false, is_first = true;
  for (int base = item.first; base < item.last; base += 32) {
    int tile = 0;
    unsigned flags = 0;
    if (base + lane < item.last) {
      const int word = work.steps[base + lane];
      tile = word >> 1;
      if ((word & 1) != 0 && !work.has_documents) {
#pragma unroll
        for (int i = 0; i < kWarpgroups; ++i) flags |= Flags::kWhole << (2 * kParts * i);
      } else {
#pragma unroll 1
        for (int i = 0; i < kWarpgroups * kParts; ++i) {
          const PartShare share = part_share(work.pattern, program, documents, first_query + i / kParts * kPart,
                                             (tile * kParts + i % kParts) * kPart);
          flags |= static_cast<unsigned>(share) << (2 * i);
        }
      }
    }
    unsigned found = __ballot_sync(0xffffffff, flags != 0);
    if (found == 0 && has_waiting && work.documents_apart) break;  // documents of earlier keys are earlier ones
    while (found != 0) {
      const int from = __ffs(static_cast<int>(found)) - 1;
      found &= found - 1;
      if (has_waiting) {
        step(waiting_tile, waiting, is_first);
        is_first = false;
      }
      waiting_tile = __shfl_sync(0xffffffff, tile, from);
      waiting = __shfl_sync(0xffffffff, flags, from);
      has_waiting = true;
    }
  }
  step(waiting_tile, waiting | Flags::kLast, is_first);
}

// The position in a ring of kCount places, and the parity of the round.
template <int kCount>
struct RingTurn {
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
