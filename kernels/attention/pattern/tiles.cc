// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/tiles.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/errors.h"
#include "kernels/attention/pattern/pair_counter.h"

namespace strata::kernels {
namespace {

int64_t tiles_of(int64_t positions, int64_t size) { return (positions + size - 1) / size; }

// Tile numbers: a rectangle of whole tiles.
struct TileRange {
  int64_t first_row, end_row, first_column, end_column;

  bool is_one() const { return end_row - first_row == 1 && end_column - first_column == 1; }
};

// The tiles of each row of queries, in the order in which they are found, which ascends.
struct Row {
  std::vector<int32_t> partial, full;
};

class TileCompiler {
 public:
  TileCompiler(const Program& program, int64_t first_query, int64_t queries, int64_t keys, TileSize size,
               std::span<const int32_t> document_of)
      : counter_(program, std::max(first_query + queries, keys), document_of),
        first_query_(first_query),
        queries_(queries),
        keys_(keys),
        size_(size) {
    rows_.resize(static_cast<size_t>(tiles_of(queries, size.queries)));
  }

  int64_t visible_pairs() const { return visible_pairs_; }
  const std::vector<Row>& rows() const { return rows_; }

  // Halves the range until the share of a part is clear from its borders, or until it is one tile.
  void add(const TileRange& range) {
    const Rectangle rectangle = rectangle_of(range);
    const Share share = counter_.share(rectangle);
    if (share == Share::none()) return;
    if (share == Share::all()) return add_seen(range, rectangle.pairs());
    if (range.is_one()) {
      const int64_t pairs = counter_.count(rectangle);
      if (pairs == rectangle.pairs()) return add_seen(range, pairs);
      if (pairs > 0) row(range.first_row).partial.push_back(static_cast<int32_t>(range.first_column));
      visible_pairs_ += pairs;
      return;
    }
    const int64_t row = (range.first_row + range.end_row + 1) / 2;
    const int64_t column = (range.first_column + range.end_column + 1) / 2;
    for (const auto& [first_row, end_row] : {std::pair{range.first_row, row}, std::pair{row, range.end_row}}) {
      if (first_row == end_row) continue;
      add({first_row, end_row, range.first_column, column});
      if (column < range.end_column) add({first_row, end_row, column, range.end_column});
    }
  }

 private:
  Row& row(int64_t index) { return rows_[static_cast<size_t>(index)]; }

  Rectangle rectangle_of(const TileRange& range) const {
    return {first_query_ + range.first_row * size_.queries,
            first_query_ + std::min(range.end_row * size_.queries, queries_), range.first_column * size_.keys,
            std::min(range.end_column * size_.keys, keys_)};
  }

  // Tiles whose pairs inside of the lengths are all visible. The last tiles may be cut off, and are partial then.
  void add_seen(const TileRange& range, int64_t pairs) {
    visible_pairs_ += pairs;
    for (int64_t i = range.first_row; i < range.end_row; ++i) {
      for (int64_t j = range.first_column; j < range.end_column; ++j) {
        const bool whole = (i + 1) * size_.queries <= queries_ && (j + 1) * size_.keys <= keys_;
        (whole ? row(i).full : row(i).partial).push_back(static_cast<int32_t>(j));
      }
    }
  }

  PairCounter counter_;
  int64_t first_query_, queries_, keys_;
  TileSize size_;
  std::vector<Row> rows_;
  int64_t visible_pairs_ = 0;
};

TileList list_of(const std::vector<Row>& rows) {
  TileList list;
  list.offsets.push_back(0);
  for (const Row& row : rows) {
    list.indices.insert(list.indices.end(), row.partial.begin(), row.partial.end());
    list.indices.insert(list.indices.end(), row.full.begin(), row.full.end());
    list.partial.push_back(static_cast<int32_t>(row.partial.size()));
    list.offsets.push_back(static_cast<int32_t>(list.indices.size()));
  }
  return list;
}

std::vector<Row> transposed(const std::vector<Row>& rows, int64_t columns) {
  std::vector<Row> result(static_cast<size_t>(columns));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const int32_t j : rows[i].partial) result[static_cast<size_t>(j)].partial.push_back(static_cast<int32_t>(i));
    for (const int32_t j : rows[i].full) result[static_cast<size_t>(j)].full.push_back(static_cast<int32_t>(i));
  }
  return result;
}

}  // namespace

Tiles compile_tiles(const Pattern& pattern, int64_t queries, int64_t keys, TileSize size,
                    std::span<const int32_t> document_of, int64_t first_query) {
  return compile_tiles(compile_program(pattern), queries, keys, size, document_of, first_query);
}

Tiles compile_tiles(const Program& program, int64_t queries, int64_t keys, TileSize size,
                    std::span<const int32_t> document_of, int64_t first_query) {
  if (queries < 1 || keys < 1 || size.queries < 1 || size.keys < 1) {
    throw Error(ExitCode::configuration, "attention pattern: " + std::to_string(queries) + " queries, " +
                                             std::to_string(keys) + " keys and tiles of " +
                                             std::to_string(size.queries) + " x " + std::to_string(size.keys) +
                                             ", expected at least 1 of each");
  }
  const int64_t query_tiles = tiles_of(queries, size.queries), key_tiles = tiles_of(keys, size.keys);
  constexpr int64_t kMostTiles = std::numeric_limits<int32_t>::max();
  if (std::max(first_query + queries, keys) > kMostTiles || query_tiles > kMostTiles / key_tiles) {
    throw Error(ExitCode::configuration, "attention pattern: " + std::to_string(queries) + " queries and " +
                                             std::to_string(keys) + " keys have " + std::to_string(query_tiles) +
                                             " x " + std::to_string(key_tiles) + " tiles, expected at most " +
                                             std::to_string(kMostTiles) + "; take larger tiles");
  }
  TileCompiler compiler(program, first_query, queries, keys, size, document_of);
  compiler.add({0, query_tiles, 0, key_tiles});
  Tiles result = {.by_query = list_of(compiler.rows()), .by_key = list_of(transposed(compiler.rows(), key_tiles))};
  result.pairs = queries * keys;
  result.visible_pairs = compiler.visible_pairs();
  result.tiles = query_tiles * key_tiles;
  for (const int32_t partial : result.by_query.partial) result.partial_tiles += partial;
  result.full_tiles = static_cast<int64_t>(result.by_query.indices.size()) - result.partial_tiles;
  return result;
}

}  // namespace strata::kernels
