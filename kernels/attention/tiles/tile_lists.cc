// SPDX-License-Identifier: MIT
#include "kernels/attention/tiles/tile_lists.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/attention/attention_triton_kernels.h"
#include "kernels/attention/device_constants.h"

namespace strata::kernels {

std::vector<int32_t> longest_first(const TileList& list) {
  const auto length = [&](int32_t tile) {
    const auto i = static_cast<size_t>(tile);
    return list.offsets[i + 1] - list.offsets[i];
  };
  std::vector<int32_t> order(list.partial.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return length(a) > length(b); });
  return order;
}

std::vector<int32_t> packed_lists(const TileList& list) {
  std::vector<int32_t> packed;
  for (const int32_t tile : longest_first(list)) {
    const auto i = static_cast<size_t>(tile);
    const int32_t first = list.offsets[i];
    packed.insert(packed.end(), {tile, first, first + list.partial[i], list.offsets[i + 1]});
  }
  packed.insert(packed.end(), list.indices.begin(), list.indices.end());
  return packed;
}

TileLists tile_lists(const Pattern& pattern, const TiledRow& row, TileSize size, TileSide side, at::Device device) {
  const bool by_key = side == TileSide::key;
  const int64_t own_size = by_key ? size.keys : size.queries, own_count = by_key ? row.keys : row.queries;
  const int64_t tiles = (own_count + own_size - 1) / own_size;
  const std::string name = "the list of tiles of " + to_text(pattern) + " by " + (by_key ? "key" : "query") + " of " +
                           std::to_string(row.queries) + " queries from position " + std::to_string(row.first_query) +
                           " on and " + std::to_string(row.keys) + " keys in " + std::to_string(size.queries) + " x " +
                           std::to_string(size.keys);
  const at::Tensor packed = device_constants(name, device, [&] {
    const Tiles compiled = compile_tiles(pattern, row.queries, row.keys, size, /*document_of=*/{}, row.first_query);
    return packed_lists(by_key ? compiled.by_key : compiled.by_query);
  });
  const int64_t numbers = kRowNumbers * tiles;
  return {packed.narrow(0, 0, numbers).view({tiles, kRowNumbers}), packed.narrow(0, numbers, packed.size(0) - numbers),
          tiles};
}

TileLists lists_of_documents(const TileLists& one_document, const TiledRow& row, const at::Tensor& document_BT,
                             bool apart, TileSize size, TileSide side) {
  const int64_t batch = document_BT.size(0), tiles = one_document.tiles, capacity = one_document.indices.size(0);
  TORCH_CHECK_VALUE(batch * capacity <= std::numeric_limits<int32_t>::max(), "attention/triton: ", batch,
                    " rows of the batch have lists of ", capacity,
                    " tiles each, expected less than 2^31 together; take fewer rows");
  struct Side {
    int64_t begin, end, size;
  };
  const Side queries = {row.first_query, row.first_query + row.queries, size.queries}, keys = {0, row.keys, size.keys};
  const auto& [own, other] = side == TileSide::key ? std::pair{keys, queries} : std::pair{queries, keys};
  const TileLists result = {at::empty({batch, tiles, kRowNumbers}, document_BT.options()),
                            at::empty({batch, capacity}, document_BT.options()), tiles};
  launch_attention_document_tiles_triton(document_BT, one_document.rows, one_document.indices, result.rows,
                                         result.indices, document_BT.size(1), own.begin, own.end, other.begin,
                                         other.end, tiles, capacity, own.size, other.size, apart, batch);
  return result;
}

}  // namespace strata::kernels
