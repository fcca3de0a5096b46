// SPDX-License-Identifier: MIT
// Which pairs of a tile are visible, by the program of a pattern (pattern/program.h). Two answers for a part of 64 x 64
// pairs: its share (no pair, some, all), and for each thread of a warpgroup the bits of the 32 pairs that wgmma gives
// it.
#pragma once

#include <cstdint>

#include "kernels/attention/pattern/block_hash.h"

namespace strata::kernels {

inline constexpr int kPart = 64;              // queries and keys of a part
inline constexpr int kMostProgramWords = 96;  // a program has at most 31 instructions of three numbers
inline constexpr int kProgramStack = 16;      // values on the stack
inline constexpr int kFarPosition = 1 << 30;  // positions are less

enum class PartShare : unsigned { none, some, all };

// Operations of a program.
enum ProgramOperation : int { kBoth, kEither, kBand, kStride, kPrefix, kGlobal, kBlocks, kDocuments };

// The pattern of a call. Positions are counted from the first key; queries begin at `first_query` among them.
struct PairPattern {
  const int* program = nullptr;    // in global memory
  const int* documents = nullptr;  // int32 [B, keys], or null
  int instructions = 0;
  int first_query = 0, end_query = 0, keys = 0;
};

__device__ inline int load_shared_int(unsigned address) {
  int number;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(number) : "r"(address));
  return number;
}

// Twins of block_mixed() and sees_block() in block_hash.h: nvcc calls no constexpr function of the host in a kernel
// without --expt-relaxed-constexpr.
__device__ inline uint32_t device_mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
__device__ inline bool device_sees_block(int key, int threshold, int query_block, int key_block) {
  const uint32_t row = device_mixed(static_cast<uint32_t>(key) + 2u * static_cast<uint32_t>(query_block));
  const uint32_t column = device_mixed(static_cast<uint32_t>(key) + 2u * static_cast<uint32_t>(key_block) + 1u);
  return query_block == key_block || static_cast<int>(device_mixed(row ^ column) >> 8) < threshold;
}

__device__ inline int clamp_distance(int distance) { return min(max(distance, -kFarPosition), kFarPosition); }

// Which pairs a part may have: bit 0 is set if a pair may be visible, and bit 1 if a pair may be hidden.
// `program` is the address of the program in shared memory.
__device__ inline unsigned possible_visibility(const PairPattern& pattern, unsigned program, const int* documents,
                                               int first_query, int last_query, int first_key, int last_key) {
  unsigned visible = 0, hidden = 0;  // stacks of bits
  const int nearest = first_query - last_key, farthest = last_query - first_key;
  for (int i = 0; i < pattern.instructions; ++i) {
    const unsigned address = program + 12 * i;
    const int operation = load_shared_int(address), first = load_shared_int(address + 4),
              second = load_shared_int(address + 8);
    if (operation == kBoth) {
      visible = (visible >> 1) & (visible | ~1u);
      hidden = (hidden >> 1) | (hidden & 1);
      continue;
    }
    if (operation == kEither) {
      visible = (visible >> 1) | (visible & 1);
      hidden = (hidden >> 1) & (hidden | ~1u);
      continue;
    }
    bool sees = true, hides = true;
    if (operation == kBand) {
      sees = farthest >= first && nearest <= second;
      hides = nearest < first || farthest > second;
    } else if (operation == kStride) {
      sees = nearest < second && -farthest < second;
    } else if (operation == kPrefix) {
      sees = first_key < first;
      hides = last_key >= first;
    } else if (operation == kGlobal) {
      sees = first_query < first || first_key < first;
      hides = last_query >= first && last_key >= first;
    } else if (operation == kBlocks) {
      if (first_query / 64 == last_query / 64 && first_key / 64 == last_key / 64) {
        sees = device_sees_block(first, second, first_query / 64, first_key / 64);
        hides = !sees;
      }
    } else {
      const int first_query_document = documents[first_query], last_query_document = documents[last_query];
      const int first_key_document = documents[first_key], last_key_document = documents[last_key];
      sees = first_query_document <= last_key_document && first_key_document <= last_query_document;
      hides = first_query_document != last_query_document || first_key_document != last_key_document ||
              first_query_document != first_key_document;
    }
    visible = (visible << 1) | (sees ? 1u : 0u);
    hidden = (hidden << 1) | (hides ? 1u : 0u);
  }
  return (visible & 1) | ((hidden & 1) << 1);
}

// The share of visible pairs in a part. Parts that may be either are `some`.
__device__ inline PartShare part_share(const PairPattern& pattern, unsigned program, const int* documents,
                                       int first_query, int first_key) {
  const int last_query = min(first_query + kPart, pattern.end_query) - 1;
  const int last_key = min(first_key + kPart, pattern.keys) - 1;
  if (last_query < first_query || last_key < first_key) return PartShare::none;
  const unsigned found = possible_visibility(pattern, program, documents, first_query, last_query, first_key, last_key);
  if ((found & 1) == 0) return PartShare::none;
  const bool whole = last_query - first_query == kPart - 1 && last_key - first_key == kPart - 1;
  return whole && (found & 2) == 0 ? PartShare::all : PartShare::some;
}

// The number of a thread's columns 8 j + e (j < 8, e < 2) that are below `column`.
__device__ inline int columns_below(int column) {
  return column <= 0 ? 0 : min(16, 2 * (column >> 3) + min(column & 7, 2));
}
// Bits of the columns from `first` to `end`.
__device__ inline unsigned interval(int first, int end) {
  return ((1u << columns_below(end)) - 1) & ~((1u << columns_below(first)) - 1);
}

// The pairs of one thread of a warpgroup in a part: 2 rows x 16 columns. Bit 16 i + 2 j + e is its row + 8 i (i < 2),
// and column 8 j + e.
// `row` and `column` are the positions of its first row and column. Rows are queries or keys.
template <bool kRowsAreQueries>
struct ThreadPairs {
  int row, column;

  // What one instruction says of the row at `position`.
  __device__ unsigned row_bits(int operation, int first, int second, const int* documents, int keys,
                               int position) const {
    const int distance = position - column;
    switch (operation) {
      case kBand:
        return kRowsAreQueries ? interval(distance - clamp_distance(second), distance - clamp_distance(first) + 1)
                               : interval(distance + clamp_distance(first), distance + clamp_distance(second) + 1);
      case kPrefix:
        return kRowsAreQueries ? interval(0, first - column) : (position < first ? 0xffffu : 0);
      case kGlobal:
        return position < first ? 0xffffu : interval(0, first - column);
      case kBlocks: {
        // The columns of a thread begin up to 6 behind the first of the part.
        const int block = column / 64, border = (block + 1) * 64 - column;
        const bool before = kRowsAreQueries ? device_sees_block(first, second, position / 64, block)
                                            : device_sees_block(first, second, block, position / 64);
        const bool behind = kRowsAreQueries ? device_sees_block(first, second, position / 64, block + 1)
                                            : device_sees_block(first, second, block + 1, position / 64);
        return (before ? interval(0, border) : 0) | (behind ? interval(border, 64) : 0);
      }
      case kStride: {
        unsigned bits = 0;
#pragma unroll 1
        for (int i = 0; i < 16; ++i) {
          const int own_distance = abs(distance - (i / 2 * 8 + i % 2));
          if (own_distance < second && own_distance % first == 0) bits |= 1u << i;
        }
        return bits;
      }
      default: {
        const int own = documents[min(position, keys - 1)];
        unsigned bits = 0;
#pragma unroll 1
        for (int i = 0; i < 16; ++i) {
          if (documents[min(column + i / 2 * 8 + i % 2, keys - 1)] == own) bits |= 1u << i;
        }
        return bits;
      }
    }
  }

  // `stack` is this thread's place in shared memory, and its values are `stack_step` bytes apart.
  __device__ unsigned bits(const PairPattern& pattern, unsigned program, const int* documents, unsigned stack,
                           unsigned stack_step) const {
    unsigned top = 0;
#pragma unroll 1
    for (int i = 0; i < pattern.instructions; ++i) {
      const unsigned address = program + 12 * i;
      const int operation = load_shared_int(address), first = load_shared_int(address + 4),
                second = load_shared_int(address + 8);
      if (operation <= kEither) {
        stack -= stack_step;
        unsigned below;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(below) : "r"(stack) : "memory");
        top = operation == kBoth ? top & below : top | below;
      } else {
        if (i > 0) {
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(stack), "r"(top) : "memory");
          stack += stack_step;
        }
        top = row_bits(operation, first, second, documents, pattern.keys, row);
        top |= row_bits(operation, first, second, documents, pattern.keys, row + 8) << 16;
      }
    }
    const int row_end = kRowsAreQueries ? pattern.end_query : pattern.keys;
    const int column_end = kRowsAreQueries ? pattern.keys : pattern.end_query;
    const unsigned inside = interval(0, column_end - column);
    if (row >= row_end) top &= 0xffff0000u;
    if (row + 8 >= row_end) top &= 0xffffu;
    return top & (inside | inside << 16);
  }
};

}  // namespace strata::kernels
