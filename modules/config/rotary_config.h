// SPDX-License-Identifier: MIT
// The rotary positions of a language model: their base, and how they are scaled for longer contexts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "configs/checks.h"
#include "configs/limits.h"

namespace strata::modules {

enum class RotaryScalingType { none, llama3, linear, yarn };
constexpr std::array<std::string_view, 4> names(RotaryScalingType) { return {"none", "llama3", "linear", "yarn"}; }

// Frequencies are powers of the base, and a base below 1 would make them grow with the feature.
inline constexpr configs::Limits kRotaryBases = configs::between(1, 1e12);
inline constexpr configs::Limits kScalingFactors = configs::between(1, 1e6);
inline constexpr configs::Limits kScalingFrequencies = configs::between(1e-6, 1e6);
inline constexpr double kMostAttentionFactor = 1e6;

// The scaling of rotary frequencies for contexts longer than `original_sequence`.
struct RotaryScaling {
  RotaryScalingType type = RotaryScalingType::none;
  double factor = 32;
  double low_frequency = 1;
  double high_frequency = 4;
  int64_t original_sequence = 8192;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;

  bool operator==(const RotaryScaling&) const = default;

  // The factor of cosines and sines, by which queries and keys grow.
  double table_factor() const;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("type", type,
               "none; llama3: long wavelengths are scaled, as in Llama 3.1; linear: all wavelengths, as in Gemma 3; "
               "yarn: wavelengths with few turns in original_sequence, as in YaRN");
    fields.add("factor", factor, "factor by which the longest wavelengths are scaled", kScalingFactors);
    fields.add("low_frequency", low_frequency,
               "wavelengths longer than original_sequence / low_frequency are scaled by the whole factor (llama3)",
               kScalingFrequencies);
    fields.add("high_frequency", high_frequency,
               "wavelengths shorter than original_sequence / high_frequency are not scaled; those between are "
               "interpolated (llama3)",
               kScalingFrequencies);
    fields.add("original_sequence", original_sequence,
               "context length for which the model was trained before the scaling (llama3, yarn)",
               configs::between(1, 1e8), "tokens");
    fields.add("beta_fast", beta_fast, "pairs with more turns in original_sequence are not scaled (yarn)",
               kScalingFrequencies);
    fields.add("beta_slow", beta_slow,
               "pairs with fewer turns in original_sequence are scaled by the whole factor; those between are "
               "interpolated (yarn)",
               kScalingFrequencies);
    fields.add("attention_factor", attention_factor,
               "factor of queries and keys (yarn); 0: 0.1 x ln(factor) + 1, as in YaRN",
               configs::between(0, kMostAttentionFactor));
  }
};

// The rotary positions of one layer.
struct Rotary {
  double base = 0;
  RotaryScaling scaling = {};
  double fraction = 1;  // share of the features of a head that are rotated

  bool operator==(const Rotary&) const = default;

  // How many features of a head are rotated, rounded down as in transformers.
  int64_t rotated_width(int64_t head_width) const {
    return static_cast<int64_t>(static_cast<double>(head_width) * fraction);
  }
};

// Checks the keys `rotary_base` and `rotary_scaling` after `prefix`. `why_not` says why the model has no rotary
// positions; "" if it has.
void check_rotary(const Rotary& rotary, const std::string& why_not, const std::string& prefix, configs::Checks& checks);

}  // namespace strata::modules
