// SPDX-License-Identifier: MIT
// Compares lists of tiles with a loop over all pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/pattern/tiles.h"
#include "kernels/attention/pattern/visible.h"

namespace strata::kernels {

enum class TileState : char { none = 'n', partial = 'p', full = 'f' };

struct TileCase {
  Pattern pattern;
  int64_t queries, keys;
  TileSize size;
  std::vector<int32_t> document_of = {};
  int64_t first_query = 0;

  std::string text() const {
    return to_text(pattern) + ", " + std::to_string(queries) + " x " + std::to_string(keys) + " from query " +
           std::to_string(first_query) + " on, in " + std::to_string(size.queries) + " x " + std::to_string(size.keys);
  }
  int64_t rows() const { return (queries + size.queries - 1) / size.queries; }
  int64_t columns() const { return (keys + size.keys - 1) / size.keys; }
};

// The state of each tile, [rows, columns], and the number of visible pairs.
struct ExactTiles {
  std::vector<TileState> states;
  int64_t visible_pairs = 0;
};

inline ExactTiles exact_tiles(const TileCase& test) {
  ExactTiles exact;
  for (int64_t row = 0; row < test.rows(); ++row) {
    for (int64_t column = 0; column < test.columns(); ++column) {
      int64_t seen = 0;
      for (int64_t query = row * test.size.queries; query < std::min((row + 1) * test.size.queries, test.queries);
           ++query) {
        for (int64_t key = column * test.size.keys; key < std::min((column + 1) * test.size.keys, test.keys); ++key) {
          seen += sees(test.pattern, test.first_query + query, key, test.document_of);
        }
      }
      exact.states.push_back(seen == 0                                    ? TileState::none
                             : seen == test.size.queries * test.size.keys ? TileState::full
                                                                          : TileState::partial);
      exact.visible_pairs += seen;
    }
  }
  return exact;
}

// Returns what is wrong with one list, whose tiles have these states by row and column. Empty: nothing.
inline std::string list_fault(const TileList& list, int64_t rows, int64_t columns,
                              const std::vector<TileState>& states) {
  const auto at = [](const auto& values, int64_t i) { return values[static_cast<size_t>(i)]; };
  if (list.rows() != rows || list.offsets.size() != static_cast<size_t>(rows) + 1) return "a wrong number of rows";
  if (list.offsets.front() != 0 || list.offsets.back() != static_cast<int64_t>(list.indices.size())) {
    return "offsets that do not cover the indices";
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t begin = at(list.offsets, row), end = at(list.offsets, row + 1), full = begin + at(list.partial, row);
    if (begin > full || full > end) return "offsets of row " + std::to_string(row) + " that descend";
    std::vector<TileState> found(static_cast<size_t>(columns), TileState::none);
    for (int32_t i = begin; i < end; ++i) {
      const int32_t column = at(list.indices, i);
      if (column < 0 || column >= columns) return "index " + std::to_string(column) + " out of range";
      if (i != begin && i != full && at(list.indices, i - 1) >= column) return "indices that do not ascend";
      if (at(found, column) != TileState::none) return "tile " + std::to_string(column) + " twice";
      found[static_cast<size_t>(column)] = i < full ? TileState::partial : TileState::full;
    }
    for (int64_t column = 0; column < columns; ++column) {
      const TileState expected = at(states, row * columns + column);
      if (at(found, column) != expected) {
        return "tile (" + std::to_string(row) + ", " + std::to_string(column) + ") is " +
               static_cast<char>(at(found, column)) + ", expected " + static_cast<char>(expected);
      }
    }
  }
  return "";
}

// Returns the first thing that is wrong with the tiles of a case. Empty: nothing.
inline std::string tile_fault(const TileCase& test, const ExactTiles& exact, const Tiles& tiles) {
  const int64_t rows = test.rows(), columns = test.columns();
  std::vector<TileState> transposed;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row)
      transposed.push_back(exact.states[static_cast<size_t>(row * columns + column)]);
  }
  if (std::string fault = list_fault(tiles.by_query, rows, columns, exact.states); !fault.empty()) {
    return "by query: " + fault;
  }
  if (std::string fault = list_fault(tiles.by_key, columns, rows, transposed); !fault.empty())
    return "by key: " + fault;
  if (tiles.visible_pairs != exact.visible_pairs) {
    return std::to_string(tiles.visible_pairs) + " visible pairs, expected " + std::to_string(exact.visible_pairs);
  }
  const auto count = [&](TileState state) { return std::count(exact.states.begin(), exact.states.end(), state); };
  if (tiles.pairs != test.queries * test.keys || tiles.tiles != rows * columns)
    return "a wrong number of all pairs or tiles";
  if (tiles.partial_tiles != count(TileState::partial) || tiles.full_tiles != count(TileState::full)) {
    return "wrong numbers of partial and full tiles";
  }
  return "";
}

}  // namespace strata::kernels
