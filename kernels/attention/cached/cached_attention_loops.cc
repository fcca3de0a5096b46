// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/cached/cached_attention_cuda.h"
#include "kernels/runtime/vectorized.h"

namespace strata::kernels {
namespace {

constexpr int kPartialSums = 16;  // independent sums, which a processor adds at once

// scores[i] = query * keys[i]
STRATA_VECTORIZED void dot_products(const float* query, const float* keys, int64_t count, int width, float* scores) {
  for (int64_t i = 0; i < count; ++i) {
    const float* key = keys + i * width;
    float sums[kPartialSums] = {}, remainder_sum = 0.0f;
    int column = 0;
    for (; column + kPartialSums <= width; column += kPartialSums) {
      for (int k = 0; k < kPartialSums; ++k) sums[k] += query[column + k] * key[column + k];
    }
    for (; column < width; ++column) remainder_sum += query[column] * key[column];
    for (int remaining = kPartialSums / 2; remaining > 0; remaining /= 2) {
      for (int k = 0; k < remaining; ++k) sums[k] += sums[k + remaining];
    }
    scores[i] = sums[0] + remainder_sum;
  }
}

// y += weights[i] * values[i]
STRATA_VECTORIZED void add_values(const float* weights, const float* values, int64_t count, int width, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    const float* value = values + i * width;
    for (int column = 0; column < width; ++column) y[column] += weights[i] * value[column];
  }
}

// Replaces scores by exp(score - maximum) and returns their sum.
STRATA_VECTORIZED float exponentials(float* scores, int64_t count, float maximum) {
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = scores[i] == -INFINITY ? 0.0f : std::exp(scores[i] - maximum);
    sum += scores[i];
  }
  return sum;
}

// Rotates a head by the angles of a row, and multiplies it by `factor`.
void rotate(const CachedAttention& a, int64_t row, const float* head, float factor, float* rotated) {
  const int pairs = a.head_width / 2;
  if (a.cosine == nullptr) {
    for (int column = 0; column < a.head_width; ++column) rotated[column] = head[column] * factor;
    return;
  }
  const float *cosine = a.cosine + row * pairs, *sine = a.sine + row * pairs;
  for (int pair = 0; pair < pairs; ++pair) {
    const float first = head[pair], second = head[pair + pairs];
    rotated[pair] = (first * cosine[pair] - second * sine[pair]) * factor;
    rotated[pair + pairs] = (second * cosine[pair] + first * sine[pair]) * factor;
  }
}

// One query head of a row over `stored` keys.
void attend(const CachedAttention& a, int64_t row, int head, const float* query, const float* keys, int64_t stored,
            std::vector<float>& scores) {
  scores.resize(static_cast<size_t>(stored));
  dot_products(query, keys, stored, a.head_width, scores.data());
  if (a.softcap != 0) {
    for (float& score : scores) score = a.softcap * std::tanh(score / a.softcap);
  }
  if (a.bias != nullptr) {
    const float* bias = a.bias + (row * a.bias_heads + (a.bias_heads == 1 ? 0 : head)) * a.slots;
    for (int64_t i = 0; i < stored; ++i) scores[static_cast<size_t>(i)] += bias[i];
  }
  const float sink = a.sinks == nullptr ? -INFINITY : static_cast<const float*>(a.sinks)[head];
  const float maximum = std::max(sink, *std::max_element(scores.begin(), scores.end()));
  float sum = exponentials(scores.data(), stored, maximum);
  if (a.sinks != nullptr) sum += std::exp(sink - maximum);
  float* y = static_cast<float*>(a.y) + (row * a.heads + head) * a.head_width;
  std::fill(y, y + a.head_width, 0.0f);
  add_values(scores.data(), keys + a.values_offset, stored, a.head_width, y);
  for (int column = 0; column < a.head_width; ++column) y[column] /= sum;
}

}  // namespace

void attend_by_loops(const CachedAttention& a) {
  const int width = a.head_width, per_group = a.heads / a.key_value_heads;
  std::vector<float> scores, query(static_cast<size_t>(width));
  for (int64_t row = 0; row < a.batch; ++row) {
    const float* token = static_cast<const float*>(a.qkv) + row * (a.heads + 2 * a.key_value_heads) * width;
    const int64_t slot = a.positions[row] % a.slots, stored = std::min(a.positions[row] + 1, a.slots);
    for (int group = 0; group < a.key_value_heads; ++group) {
      float* keys = static_cast<float*>(a.cache) + (row * a.key_value_heads + group) * a.slots * width;
      rotate(a, row, token + (a.heads + group) * width, 1.0f, keys + slot * width);
      const float* value = token + (a.heads + a.key_value_heads + group) * width;
      std::copy(value, value + width, keys + a.values_offset + slot * width);
      for (int head = group * per_group; head < (group + 1) * per_group; ++head) {
        rotate(a, row, token + head * width, a.scale, query.data());
        attend(a, row, head, query.data(), keys, stored, scores);
      }
    }
  }
}

}  // namespace strata::kernels
