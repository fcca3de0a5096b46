// SPDX-License-Identifier: MIT
// PairCounter: the exact number of visible pairs in rectangles of queries and keys.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/share.h"

namespace strata::kernels {

// A rectangle whose share is not clear from its borders is halved both ways, down to 64 x 64 pairs of one pair of
// blocks, which are counted by 64 keys at once. Where only distances decide, the count is kept for all rectangles of
// the same size and distance.
class PairCounter {
 public:
  // For rectangles inside of a row of `positions`. Keeps `document_of`, which has the document of each position, and
  // which patterns without the word documents do not read. Throws an Error with ExitCode::data if it has too few ids,
  // or if ids descend.
  PairCounter(const Program& program, int64_t positions, std::span<const int32_t> document_of);

  // The share by the borders alone, as a set of what is possible.
  Share share(const Rectangle& rectangle) const;

  int64_t count(const Rectangle& rectangle);
  // True if the count is 0 and cheap to know: from the borders, because only distances decide, or because the rectangle
  // is one pair of blocks.
  bool is_known_empty(const Rectangle& rectangle);

 private:
  using Shares = std::array<Share, kMostInstructions>;

  // If only distances decide the count of a rectangle, these do.
  struct Place {
    int64_t distance;       // first query - first key
    int64_t queries, keys;  // the size
    uint64_t shares;        // share of each instruction, two bits each

    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };

  Share share(const Rectangle& rectangle, Shares& shares) const;
  int64_t count_parts(const Rectangle& rectangle, const Shares& shares);
  int64_t count_cell(const Rectangle& rectangle, const Shares& shares) const;
  bool only_distances(const Shares& shares) const;

  Program program_;
  std::span<const int32_t> document_of_;
  std::unordered_map<Place, int64_t, PlaceHash> counts_;
};

// True if the query sees one of the keys in [first_key, end_key), which is not empty.
bool sees_any(const PairCounter& counter, int64_t query, int64_t first_key, int64_t end_key);

// The first position of a document of a row whose documents grow evenly: number d, from 0, is d + 1 times as long as
// number 0, up to rounding. For document == documents the number of positions.
inline int64_t begin_of_document(int64_t positions, int64_t documents, int64_t document) {
  return positions * document * (document + 1) / (documents * (documents + 1));
}

// The exact number of visible pairs in a rectangle of a row, or in a whole row of `positions`. Its `documents` are of
// equal length.
int64_t count_pairs(const Pattern& pattern, const Rectangle& rectangle, int64_t documents = 1);
int64_t count_pairs(const Pattern& pattern, int64_t positions, int64_t documents = 1);

}  // namespace strata::kernels
