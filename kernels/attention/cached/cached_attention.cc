// SPDX-License-Identifier: MIT
// B batch, T positions, H query heads, K key and value heads, D head width
#include "kernels/attention/cached/cached_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/attention/cached/fused_cached_attention.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/rotary/rotary.h"

namespace strata::kernels {

namespace {

// The pattern of a row, which is one document.
Program program_of(const Pattern& pattern) { return compile_program(for_one_document(pattern)); }

// True if a token sees all keys of its cache, which has no more slots than a window reaches.
bool sees_all_slots(const Pattern& pattern) {
  const std::optional<Band> band = band_of(program_of(pattern));
  return band && band->lowest <= 0 && band->highest >= 0;
}

}  // namespace

int64_t slots_of(const Pattern& pattern, int64_t positions) {
  const std::optional<Band> band = band_of(program_of(pattern));
  if (!band || band->highest >= positions) return positions;
  return std::max<int64_t>(band->highest, 0) + 1;
}

SlotsOfStep slots_of_step(const Tensor& positions, const Tensor& cache, const Pattern& pattern, int64_t alibi_heads) {
  const int64_t slots = cache.size(3);
  const bool fused = positions.size(1) == 1 && has_fused_cached_attention(cache);
  SlotsOfStep step{.positions = positions};
  if (fused && alibi_heads == 0 && sees_all_slots(pattern)) return step;
  if (!fused) step.slot = positions.remainder(slots);
  if (positions.size(1) != 1) return step;
  // The position whose key is in each slot, [B, slots]; negative: none yet.
  const Tensor slot_position = positions - (positions - at::arange(slots, positions.options())).remainder(slots);
  const Tensor is_visible = pairs_mask(program_of(pattern), positions, slot_position) & slot_position.ge(0);
  step.bias =
      at::zeros({positions.size(0), std::max<int64_t>(alibi_heads, 1), slots}, positions.options().dtype(at::kFloat));
  if (alibi_heads > 0) {
    const Tensor distance = positions - slot_position;
    const std::vector<double> slopes = alibi_slopes(alibi_heads);
    for (int64_t head = 0; head < alibi_heads; ++head) {
      step.bias.select(1, head).sub_(distance, slopes[static_cast<size_t>(head)]);
    }
  }
  step.bias.masked_fill_(is_visible.logical_not().unsqueeze(1), -INFINITY);
  return step;
}

void store_keys_and_values(const Tensor& cache, const Tensor& qkv, const Tensor& slot) {
  const int64_t key_value_heads = cache.size(2), slots = cache.size(3), head_width = cache.size(4);
  const int64_t stored = std::min(slots, qkv.size(1)), first = qkv.size(1) - stored;
  const int64_t columns = 2 * key_value_heads * head_width;
  const Tensor new_keys_and_values = qkv.narrow(1, first, stored)
                                         .narrow(2, qkv.size(2) - columns, columns)
                                         .unflatten(2, {2, key_value_heads, head_width})
                                         .permute({2, 0, 3, 1, 4});
  const Tensor slot_index = slot.narrow(1, first, stored).unsqueeze(0).unsqueeze(2).unsqueeze(4);
  cache.scatter_(3, slot_index.expand_as(new_keys_and_values), new_keys_and_values);
}

namespace {

Tensor attention_by_aten(const Tensor& qkv, const Tensor& cache, const Tensor& bias, const AttentionTerms& terms) {
  const int64_t batch = cache.size(1), key_value_heads = cache.size(2), slots = cache.size(3),
                head_width = cache.size(4);
  const int64_t groups = batch * key_value_heads, heads = qkv.size(2) / head_width - 2 * key_value_heads;
  const at::ScalarType sum_dtype = c10::promoteTypes(qkv.scalar_type(), at::kFloat);
  const Tensor query = qkv.narrow(2, 0, heads * head_width).to(sum_dtype).reshape({groups, -1, head_width});
  const Tensor keys_and_values = cache.to(sum_dtype).view({2, groups, slots, head_width});

  // The factor of the scores when the bias is added.
  double factor = 1 / std::sqrt(static_cast<double>(head_width));
  Tensor scores = at::bmm(query, keys_and_values.select(0, 0).transpose(1, 2)).view({batch, heads, slots});
  if (terms.softcap != 0) {
    scores.mul_(factor / terms.softcap).tanh_();
    factor = terms.softcap;
  }
  scores = at::add(bias, scores, factor);
  if (terms.sinks.defined()) {
    scores = at::cat({scores, terms.sinks.to(sum_dtype).view({1, heads, 1}).expand({batch, heads, 1})}, 2);
  }
  const Tensor probabilities = scores.softmax(2).narrow(2, 0, slots).reshape({groups, -1, slots});
  return at::bmm(probabilities, keys_and_values.select(0, 1))
      .view({batch, 1, heads * head_width})
      .to(qkv.scalar_type());
}

}  // namespace

Tensor cached_attention(const Tensor& qkv, const TokenAngles& angles, const Tensor& cache, const SlotsOfStep& step,
                        const AttentionTerms& terms) {
  if (has_fused_cached_attention(cache)) return fused_cached_attention(qkv, angles, cache, step, terms);
  Tensor rotated = qkv;
  if (angles.cosine.defined()) {
    const int64_t key_value_heads = cache.size(2), heads = qkv.size(2) / cache.size(4) - 2 * key_value_heads;
    // The tables have a row for each token, so the batch is one long row.
    rotated = rotary(qkv.view({1, -1, qkv.size(2)}), angles.cosine, angles.sine, heads, key_value_heads, angles.level)
                  .view(qkv.sizes());
  }
  store_keys_and_values(cache, rotated, step.slot);
  return attention_by_aten(rotated, cache, step.bias, terms);
}

}  // namespace strata::kernels
