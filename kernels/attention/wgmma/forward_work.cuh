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
// it is the row. Block i begins with item i, and then takes numbers of items from the counter.
struct ForwardWork {
  const int* rows = nullptr;   // [tiles, 4]: a tile of queries, and where its steps begin and end in `steps`
  const int* steps = nullptr;  // 2 * tile of keys, + 1 if all pairs are visible to all queries of one document
  PairPattern pattern;
  TileWords words;  // the same pattern
  WorkCounter counter;
  int tiles = 0, batch = 0, heads = 0, shared_by = 1;
  int residues = 1;
  int neighbors_per_tile = 1;  // sequences and heads whose items of the same tile are neighbors
  bool has_documents = false, documents_apart = false;
  float power_scale = 1;         // multiplies products, for exp2
  const float* sinks = nullptr;  // [H], or null
  float* logsumexp = nullptr;    // [B, H, Q]
  int queries_per_row = 0;

  __host__ __device__ int items() const { return tiles * batch * residues * heads; }
};

struct ForwardItem {
  int batch_row, residue, query_head, query_tile;
  int first_step, end_step;
};

// Divides by a number that is known early, without the long division of integers. Dividends are less than 2^30.
struct ItemDivisor {
  int number;
  float inverse;

  __device__ explicit ItemDivisor(int divisor) : number(divisor) {
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(static_cast<float>(divisor)));
  }
  __device__ int quotient(int dividend, int& rest) const {
    int result = static_cast<int>(static_cast<float>(dividend) * inverse);
    rest = dividend - result * number;
    for (; rest < 0; rest += number) --result;
    for (; rest >= number; rest -= number) ++result;
    return result;
  }
};

__device__ inline ForwardItem find_item(const ForwardWork& work, int number) {
  int in_group, next_to, head, residue;
  const int group = ItemDivisor(work.neighbors_per_tile * work.tiles).quotient(number, in_group);
  const int rank = ItemDivisor(work.neighbors_per_tile).quotient(in_group, next_to);
  const int sequence = ItemDivisor(work.heads).quotient(group * work.neighbors_per_tile + next_to, head);
  const int row = ItemDivisor(work.residues).quotient(sequence, residue);
  const int4 list = reinterpret_cast<const int4*>(work.rows)[rank];
  return {row, residue, head, list.x, list.y, list.z};
}

// A step as its tile and flags: bit 31 marks the last one of an item, and each warpgroup has 2 bits for each 64 keys.
template <int kWarpgroups, int kParts>
struct StepFlags {
  static constexpr unsigned kLast = 1u << 31, kAll = (1u << 2 * kParts) - 1;
  static constexpr unsigned kWhole = kAll / 3 * 2;  // of a warpgroup that sees all pairs
  unsigned flags;

  __device__ unsigned of(int warpgroup) const { return flags >> (2 * kParts * warpgroup) & kAll; }
  __device__ static PartShare share(unsigned own, int part) { return static_cast<PartShare>(own >> (2 * part) & 3); }
};

// The flags of up to 32 steps, one in each lane. `word` is the lane's step in work.steps.
template <int kWarpgroups, int kParts>
__device__ unsigned flags_of_steps(const ForwardWork& work, const ForwardItem& item, unsigned program, int word,
                                   int count) {
  using Flags = StepFlags<kWarpgroups, kParts>;
  constexpr int kOfStep = kWarpgroups * kParts, kSteps = 32 / kOfStep;  // parts of a step, steps at once
  constexpr unsigned kBits = (1u << kOfStep) - 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int* const documents = work.pattern.documents + static_cast<int64_t>(item.batch_row) * work.pattern.keys;
  const int first_query = work.pattern.first_query + item.query_tile * kWarpgroups * kPart;
  const bool is_full = (word & 1) != 0 && !work.has_documents;
  unsigned flags = 0;
#pragma unroll
  for (int i = 0; i < kWarpgroups; ++i) flags |= Flags::kWhole << (2 * kParts * i);
  const unsigned partial = __ballot_sync(0xffffffff, lane < count && !is_full);
#pragma unroll 1
  for (int first = 0; first < count; first += kSteps) {
    if ((partial >> first & ((1u << kSteps) - 1)) == 0) continue;
    const int step = first + lane / kOfStep, part = lane % kOfStep;
    const int tile = __shfl_sync(0xffffffff, word, step) >> 1;
    PartShare share = PartShare::none;
    if (lane < kSteps * kOfStep && step < count) {
      share = part_share(work.pattern, program, documents, first_query + part / kParts * kPart,
                         (tile * kParts + part % kParts) * kPart);
    }
    const unsigned low = __ballot_sync(0xffffffff, (static_cast<unsigned>(share) & 1) != 0);
    const unsigned high = __ballot_sync(0xffffffff, (static_cast<unsigned>(share) & 2) != 0);
    const int own = lane - first;
    if (own >= 0 && own < kSteps && !is_full) {
      const auto spread = [](unsigned bits) {  // to every other bit
        bits = (bits | bits << 4) & 0x0f0f;
        bits = (bits | bits << 2) & 0x3333;
        return (bits | bits << 1) & 0x5555;
      };
      flags = spread(low >> own * kOfStep & kBits) | spread(high >> own * kOfStep & kBits) << 1;
    }
  }
  return lane < count ? flags : 0;
}

// Calls step(tile, flags, is_first) for the steps of an item that have a visible pair, the last tile of keys first. All
// lanes of a warp call it. An item without such steps has one whose flags are 0. `word` is the lane's step among
// the first 32.
template <int kWarpgroups, int kParts, class Step>
__device__ void visit_steps(const ForwardWork& work, const ForwardItem& item, unsigned program, int word, Step step) {
  using Flags = StepFlags<kWarpgroups, kParts>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int waiting_tile = 0;
  unsigned waiting = 0;
  bool has_waiting = false, is_first = true;
  for (int base = item.first_step; base < item.end_step; base += 32) {
    const int count = min(item.end_step - base, 32);
    if (base > item.first_step) word = lane < count ? work.steps[base + lane] : 0;
    const unsigned flags = flags_of_steps<kWarpgroups, kParts>(work, item, program, word, count);
    unsigned found = __ballot_sync(0xffffffff, flags != 0);
    if (found == 0 && has_waiting && work.documents_apart) break;  // documents of earlier keys are earlier ones
    while (found != 0) {
      const int from = __ffs(static_cast<int>(found)) - 1;
      found &= found - 1;
      if (has_waiting) {
        step(waiting_tile, waiting, is_first);
        is_first = false;
      }
      waiting_tile = __shfl_sync(0xffffffff, word, from) >> 1;
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
  __device__ RingTurn before() const {
    return place == 0 ? RingTurn{kCount - 1, parity ^ 1} : RingTurn{place - 1, parity};
  }
};

}  // namespace strata::kernels
