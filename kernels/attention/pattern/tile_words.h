// SPDX-License-Identifier: MIT
// TileWords: a program as the few words that a kernel evaluates in a partial tile without a stack,
//
//   band & documents & (near | stride | prefix | global | blocks)
//
// each where its bit is set. A kernel may evaluate more words than those: the numbers of a word whose bit is not set
// change nothing. Only documents and blocks have no such numbers.
#pragma once

#include <cstdint>

#include "kernels/attention/pattern/farthest.h"

namespace strata::kernels {

struct Program;

struct TileWords {
  // attention_tile_triton.py has the same bits.
  enum Bit : int32_t {
    band = 1,
    documents = 2,
    near = 4,
    stride = 8,
    prefix = 16,
    global = 32,
    blocks = 64,
    program = 128  // the only bit of a program that has no such form, and must be evaluated
  };
  static constexpr int32_t kAnyOf = near | stride | prefix | global | blocks;

  int32_t bits = 0;
  int32_t lowest = -kFarthest, highest = kFarthest;           // bounds of query - key in the band
  int32_t near_lowest = kFarthest, near_highest = kFarthest;  // and near: so far apart is no pair
  int32_t step = 1, span = 0;                                 // |query - key| % step == 0, and less than span
  int32_t first_keys = 0;                                     // prefix: all queries see the keys below it
  int32_t border = 0;                                         // global: pairs whose query or key is below it
  int32_t hash_key = 0, threshold = 0;                        // key and threshold of the hash of blocks

  bool operator==(const TileWords&) const = default;
};

TileWords tile_words(const Program& program);

}  // namespace strata::kernels
