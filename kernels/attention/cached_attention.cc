// SPDX-License-Identifier: MIT
// B batch, T positions, H query heads, K key and value heads, S slots, D head width
#include "kernels/attention/cached_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern_mask.h"

namespace strata::kernels {
namespace {

// Returns the position whose key is in each slot, [B, S]; negative: none yet.
Tensor positions_of_slots(const Tensor& newest, int64_t slots) {
  const Tensor slot = at::arange(slots, newest.options());
  return newest - (newest - slot).remainder(slots);
}

}  // namespace

int64_t slots_of(const Pattern& pattern, int64_t positions) {
  const std::optional<Band> band = band_of(compile_program(of_one_document(pattern)));
  if (!band || band->highest >= positions) return positions;
  return std::max<int64_t>(band->highest, 0) + 1;
}

void store_keys(const CachedKeys& cache, const Tensor& qkv, const Tensor& positions) {
  const int64_t key_value_heads = cache.key.size(1), slots = cache.key.size(2), head_width = cache.key.size(3);
  const int64_t stored = std::min(slots, qkv.size(1)), first = qkv.size(1) - stored;
  const Tensor by_head = qkv.narrow(1, first, stored).unflatten(2, {-1, head_width}).transpose(1, 2);
  const int64_t heads = by_head.size(1) - 2 * key_value_heads;
  const Tensor key = by_head.narrow(1, heads, key_value_heads);
  const Tensor slot = positions.narrow(1, first, stored).remainder(slots).unsqueeze(1).unsqueeze(3).expand_as(key);
  cache.key.scatter_(2, slot, key);
  cache.value.scatter_(2, slot, by_head.narrow(1, heads + key_value_heads, key_value_heads));
}

Tensor cached_attention(const Tensor& qkv, const CachedKeys& cache, const Tensor& position, const Pattern& pattern,
                        const AttentionTerms& terms) {
  const int64_t batch = cache.key.size(0), slots = cache.key.size(2), head_width = cache.key.size(3);
  const int64_t groups = batch * cache.key.size(1), heads = qkv.size(2) / head_width - 2 * cache.key.size(1);
  const at::ScalarType wide = c10::promoteTypes(qkv.scalar_type(), at::kFloat);
  const Tensor query = qkv.narrow(2, 0, heads * head_width).to(wide).reshape({groups, -1, head_width});
  const Tensor key = cache.key.view({groups, slots, head_width}).to(wide);
  const Tensor value = cache.value.view({groups, slots, head_width}).to(wide);
  const Tensor place = positions_of_slots(position, slots);

  Tensor scores = at::bmm(query, key.transpose(1, 2))
                      .mul_(1 / std::sqrt(static_cast<double>(head_width)))
                      .view({batch, heads, slots});
  if (terms.softcap != 0) scores.div_(terms.softcap).tanh_().mul_(terms.softcap);
  if (terms.alibi) {
    const Tensor distance = (position - place).to(wide);
    const std::vector<double> slopes = alibi_slopes(heads);
    for (int64_t head = 0; head < heads; ++head) {
      scores.select(1, head).sub_(distance, slopes[static_cast<size_t>(head)]);
    }
  }
  const Tensor seen = pairs_mask(compile_program(of_one_document(pattern)), position, place) & place.ge(0);
  scores.masked_fill_(seen.logical_not().unsqueeze(1), -INFINITY);
  if (terms.sinks.defined()) {
    scores = at::cat({scores, terms.sinks.to(wide).view({1, heads, 1}).expand({batch, heads, 1})}, 2);
  }
  const Tensor shares = scores.softmax(2).narrow(2, 0, slots).reshape({groups, -1, slots});
  return at::bmm(shares, value).view({batch, 1, heads * head_width}).to(qkv.scalar_type());
}

}  // namespace strata::kernels
