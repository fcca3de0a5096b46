// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/share.h"

#include <algorithm>
#include <bit>

namespace strata::kernels {
namespace {

Share when(bool all, bool none) { return all ? Share::all() : none ? Share::none() : Share::some(); }

// Every distance between the least and the greatest occurs in a rectangle.
struct Distances {
  int64_t least, greatest;  // bounds of query - key
};

Distances distances_of(const Rectangle& rectangle) {
  return {rectangle.first_query - (rectangle.end_key - 1), rectangle.end_query - 1 - rectangle.first_key};
}

Share share_of_stride(int64_t step, int64_t span, Distances distances) {
  const int64_t least = std::max(distances.least, 1 - span), greatest = std::min(distances.greatest, span - 1);
  if (least > greatest) return Share::none();
  // The multiples of step from 0 to a number, and so between two numbers.
  const auto floor_of = [&](int64_t number) { return number >= 0 ? number / step : -((-number + step - 1) / step); };
  const int64_t seen = floor_of(greatest) - floor_of(least - 1);
  return when(seen == distances.greatest - distances.least + 1, seen == 0);
}

Share share_of_blocks(uint32_t key, int32_t threshold, const Rectangle& rectangle) {
  const auto block_of = [](int64_t position) { return static_cast<int32_t>(position / kBlockPositions); };
  bool all = true, none = true;
  for (int32_t i = block_of(rectangle.first_query); i <= block_of(rectangle.end_query - 1); ++i) {
    for (int32_t j = block_of(rectangle.first_key); j <= block_of(rectangle.end_key - 1); ++j) {
      (sees_block(key, threshold, i, j) ? none : all) = false;
      if (!all && !none) return Share::some();
    }
  }
  return when(all, none);
}

Share share_of_documents(const Rectangle& rectangle, std::span<const int32_t> document_of) {
  const auto begin = document_of.begin();
  auto query = begin + rectangle.first_query, key = begin + rectangle.first_key;
  const auto end_query = begin + rectangle.end_query, end_key = begin + rectangle.end_key;
  if (*query == *(end_query - 1) && *key == *(end_key - 1)) return when(*query == *key, *query != *key);
  // Looks for an id of both. Each search skips all smaller ids.
  while (*query != *key) {
    if (*query < *key) {
      if ((query = std::lower_bound(query, end_query, *key)) == end_query) return Share::none();
    } else {
      if ((key = std::lower_bound(key, end_key, *query)) == end_key) return Share::none();
    }
  }
  return Share::some();
}

}  // namespace

Share share_of(const Instruction& instruction, const Rectangle& rectangle, std::span<const int32_t> document_of) {
  const int64_t first = instruction.first, second = instruction.second;
  const Distances distances = distances_of(rectangle);
  switch (instruction.operation) {
    case Operation::band:
      return when(first <= distances.least && distances.greatest <= second,
                  distances.greatest < first || second < distances.least);
    case Operation::stride:
      return share_of_stride(first, second, distances);
    case Operation::prefix:
      return when(rectangle.end_key <= first, rectangle.first_key >= first);
    case Operation::global:
      return when(rectangle.end_query <= first || rectangle.end_key <= first,
                  rectangle.first_query >= first && rectangle.first_key >= first);
    case Operation::blocks:
      return share_of_blocks(std::bit_cast<uint32_t>(instruction.first), instruction.second, rectangle);
    case Operation::documents:
      return share_of_documents(rectangle, document_of);
    default:
      return Share();
  }
}

}  // namespace strata::kernels
