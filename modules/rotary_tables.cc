// SPDX-License-Identifier: MIT
#include "modules/rotary_tables.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "modules/config/layer_patterns.h"

namespace strata::modules {
namespace {

double llama3_frequency(double frequency, const RotaryScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  // Rotations over the original context.
  const double turns = static_cast<double>(scaling.original_sequence) / wavelength;
  if (turns < scaling.low_frequency) return frequency / scaling.factor;
  if (turns > scaling.high_frequency) return frequency;
  const double ramp = (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
  return (1.0 - ramp) * frequency / scaling.factor + ramp * frequency;
}

// The band goes over whole numbers of pairs, as in the authors' code.
double yarn_frequency(double frequency, int64_t pair, int64_t rotated_width, const Rotary& rotary) {
  const RotaryScaling& scaling = rotary.scaling;
  const auto width = static_cast<double>(rotated_width), original = static_cast<double>(scaling.original_sequence);
  const auto pair_with = [&](double turns) {
    return width * std::log(original / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(rotary.base));
  };
  const double low = std::max(std::floor(pair_with(scaling.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_with(scaling.beta_slow)), width - 1.0);
  const double band = high == low ? 0.001 : high - low;
  const double ramp = std::clamp((static_cast<double>(pair) - low) / band, 0.0, 1.0);
  return ramp * frequency / scaling.factor + (1.0 - ramp) * frequency;
}

double frequency_of(int64_t pair, int64_t rotated_width, const Rotary& rotary) {
  const double frequency = std::pow(rotary.base, -2.0 * static_cast<double>(pair) / static_cast<double>(rotated_width));
  switch (rotary.scaling.type) {
    case RotaryScalingType::none:
      return frequency;
    case RotaryScalingType::llama3:
      return llama3_frequency(frequency, rotary.scaling);
    case RotaryScalingType::linear:
      return frequency / rotary.scaling.factor;
    case RotaryScalingType::yarn:
      return yarn_frequency(frequency, pair, rotated_width, rotary);
  }
  return frequency;  // unreachable: the switch is complete
}

}  // namespace

RotaryTables rotary_tables(const TransformerConfig& config, int64_t length, at::Device device) {
  const std::vector<LayersOfRotary> layers_of_rotary = layers_by_rotary(config);
  const int64_t head_width = config.head_width_or_default(), pairs = head_width / 2,
                count = static_cast<int64_t>(layers_of_rotary.size());
  const auto options = at::TensorOptions(at::kFloat).device(device);
  RotaryTables tables{at::ones({count, length, pairs}, options), at::zeros({count, length, pairs}, options)};
  if (device.is_meta()) return tables;
  auto cosine = tables.cosine.accessor<float, 3>();
  auto sine = tables.sine.accessor<float, 3>();
  for (int64_t number = 0; number < count; ++number) {
    const Rotary& rotary = layers_of_rotary[static_cast<size_t>(number)].rotary;
    const double factor = rotary.scaling.table_factor();
    const int64_t rotated_width = rotary.rotated_width(head_width);
    for (int64_t i = 0; i < rotated_width / 2; ++i) {
      const double frequency = frequency_of(i, rotated_width, rotary);
      for (int64_t t = 0; t < length; ++t) {
        cosine[number][t][i] = static_cast<float>(factor * std::cos(static_cast<double>(t) * frequency));
        sine[number][t][i] = static_cast<float>(factor * std::sin(static_cast<double>(t) * frequency));
      }
    }
  }
  return tables;
}

RotaryTables rows_of(const RotaryTables& tables, const Tensor& positions) {
  const Tensor rows = positions.flatten();
  return {tables.cosine.index_select(1, rows), tables.sine.index_select(1, rows)};
}

}  // namespace strata::modules
