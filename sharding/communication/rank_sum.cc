// SPDX-License-Identifier: MIT
#include "sharding/communication/rank_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>

namespace strata::sharding {
namespace {

constexpr int64_t kBlock = 1024;  // elements whose sums stay in the L1 cache while all parts are added

template <typename Element, typename Sum>
void sum(const std::vector<const void*>& parts, void* output, int64_t count) {
  Sum sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const auto* first = static_cast<const Element*>(parts[0]) + begin;
    for (int64_t i = 0; i < length; ++i) sums[i] = static_cast<Sum>(first[i]);
    for (size_t part = 1; part < parts.size(); ++part) {
      const auto* next = static_cast<const Element*>(parts[part]) + begin;
      for (int64_t i = 0; i < length; ++i) sums[i] += static_cast<Sum>(next[i]);
    }
    auto* to = static_cast<Element*>(output) + begin;
    for (int64_t i = 0; i < length; ++i) to[i] = static_cast<Element>(sums[i]);
  }
}

}  // namespace

void sum_in_rank_order(c10::ScalarType dtype, const std::vector<const void*>& parts, void* output, int64_t count) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return sum<float, float>(parts, output, count);
    case c10::ScalarType::BFloat16:
      return sum<c10::BFloat16, float>(parts, output, count);
    case c10::ScalarType::Half:
      return sum<c10::Half, float>(parts, output, count);
    case c10::ScalarType::Double:
      return sum<double, double>(parts, output, count);
    case c10::ScalarType::Long:  // unsigned, because a signed sum that overflows is undefined
      return sum<uint64_t, uint64_t>(parts, output, count);
    default:
      TORCH_CHECK(false, "sums of ", dtype, " are not known");
  }
}

}  // namespace strata::sharding
