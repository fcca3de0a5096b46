// SPDX-License-Identifier: MIT
#include "sharding/communication/rank_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>

namespace strata::sharding {
namespace {

constexpr int64_t kBlock = 1024;  // elements whose sums stay in the L1 cache while all parts are added

// `combine` adds the second number to the first one, or keeps the larger one.
template <typename Element, typename Sum, typename Combine>
void reduce_with(const std::vector<const void*>& parts, void* output, int64_t count, Combine combine) {
  Sum sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const auto* first = static_cast<const Element*>(parts[0]) + begin;
    for (int64_t i = 0; i < length; ++i) sums[i] = static_cast<Sum>(first[i]);
    for (size_t part = 1; part < parts.size(); ++part) {
      const auto* next = static_cast<const Element*>(parts[part]) + begin;
      for (int64_t i = 0; i < length; ++i) combine(sums[i], static_cast<Sum>(next[i]));
    }
    auto* to = static_cast<Element*>(output) + begin;
    for (int64_t i = 0; i < length; ++i) to[i] = static_cast<Element>(sums[i]);
  }
}

// Unsigned: how `sum` adds whole numbers, because a signed sum that overflows is undefined.
template <typename Element, typename Sum, typename Unsigned = Sum>
void reduce(Reduction reduction, const std::vector<const void*>& parts, void* output, int64_t count) {
  if (reduction == Reduction::largest) {
    return reduce_with<Element, Sum>(parts, output, count, [](Sum& most, Sum next) { most = std::max(most, next); });
  }
  reduce_with<Element, Unsigned>(parts, output, count, [](Unsigned& sum, Unsigned next) { sum += next; });
}

}  // namespace

void reduce_in_rank_order(Reduction reduction, c10::ScalarType dtype, const std::vector<const void*>& parts,
                          void* output, int64_t count) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return reduce<float, float>(reduction, parts, output, count);
    case c10::ScalarType::BFloat16:
      return reduce<c10::BFloat16, float>(reduction, parts, output, count);
    case c10::ScalarType::Half:
      return reduce<c10::Half, float>(reduction, parts, output, count);
    case c10::ScalarType::Double:
      return reduce<double, double>(reduction, parts, output, count);
    case c10::ScalarType::Long:
      return reduce<int64_t, int64_t, uint64_t>(reduction, parts, output, count);
    default:
      TORCH_CHECK(false, "reductions of ", dtype, " are not known");
  }
}

}  // namespace strata::sharding
