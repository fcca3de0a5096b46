// SPDX-License-Identifier: MIT
#include "kernels/attention/tiles/step_lists.h"

#include <algorithm>
#include <functional>
#include <string>

#include "kernels/attention/device_constants.h"

namespace strata::kernels {

std::vector<int32_t> packed_steps(const TileList& list) {
  std::vector<int32_t> packed, steps;
  for (const int32_t tile : longest_first(list)) {
    const auto i = static_cast<size_t>(tile);
    const auto begin = static_cast<int32_t>(steps.size());
    for (int32_t place = list.offsets[i]; place < list.offsets[i + 1]; ++place) {
      const bool is_full = place >= list.offsets[i] + list.partial[i];
      steps.push_back(2 * list.indices[static_cast<size_t>(place)] + (is_full ? 1 : 0));
    }
    std::sort(steps.begin() + begin, steps.end(), std::greater<>());
    packed.insert(packed.end(), {tile, begin, static_cast<int32_t>(steps.size()), 0});
  }
  packed.insert(packed.end(), steps.begin(), steps.end());
  return packed;
}

StepsOfTiles step_lists(const Pattern& pattern, const TiledRow& row, TileSize size, at::Device device) {
  const int64_t tiles = (row.queries + size.queries - 1) / size.queries;
  const std::string name = "the steps of " + to_text(pattern) + " of " + std::to_string(row.queries) +
                           " queries from position " + std::to_string(row.first_query) + " on and " +
                           std::to_string(row.keys) + " keys in " + std::to_string(size.queries) + " x " +
                           std::to_string(size.keys);
  const at::Tensor packed = device_constants(name, device, [&] {
    return packed_steps(
        compile_tiles(pattern, row.queries, row.keys, size, /*document_of=*/{}, row.first_query).by_query);
  });
  const int64_t numbers = kRowNumbers * tiles;
  return {packed.narrow(0, 0, numbers).view({tiles, kRowNumbers}), packed.narrow(0, numbers, packed.size(0) - numbers),
          tiles};
}

}  // namespace strata::kernels
