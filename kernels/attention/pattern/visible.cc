// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/visible.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/attention/pattern/block_hash.h"

namespace strata::kernels {

bool sees(const Pattern& pattern, int64_t query, int64_t key, std::span<const int32_t> document_of) {
  using Kind = Pattern::Kind;
  const int64_t distance = std::abs(query - key);
  const auto part_sees = [&](const Pattern& part) { return sees(part, query, key, document_of); };
  switch (pattern.kind) {
    case Kind::full:
      return true;
    case Kind::causal:
      return key <= query;
    case Kind::window:
      return distance < pattern.n;
    case Kind::dilated:
      return distance % pattern.step == 0 && distance / pattern.step < pattern.n;
    case Kind::prefix:
      return key < pattern.n;
    case Kind::global:
      return query < pattern.n || key < pattern.n;
    case Kind::blocks:
      return sees_block(block_key(static_cast<uint32_t>(pattern.seed)), block_threshold(pattern.density),
                        static_cast<int32_t>(query / kBlockPositions), static_cast<int32_t>(key / kBlockPositions));
    case Kind::documents:
      return document_of[static_cast<size_t>(query)] == document_of[static_cast<size_t>(key)];
    case Kind::both:
      return std::all_of(pattern.parts.begin(), pattern.parts.end(), part_sees);
    case Kind::either:
      return std::any_of(pattern.parts.begin(), pattern.parts.end(), part_sees);
  }
  return false;
}

}  // namespace strata::kernels
