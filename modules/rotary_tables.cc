// SPDX-License-Identifier: MIT
#include "modules/rotary_tables.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <numbers>

namespace strata::modules {
namespace {

double scaled(double frequency, const RotaryScaling& scaling) {
  if (scaling.type == RotaryScalingType::none) return frequency;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  // Rotations over the original context.
  const double turns = static_cast<double>(scaling.original_sequence) / wavelength;
  if (turns < scaling.low_frequency) return frequency / scaling.factor;
  if (turns > scaling.high_frequency) return frequency;
  const double smooth = (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
  return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

RotaryTables rotary_tables(const TransformerConfig& config, int64_t length) {
  const int64_t half = config.width_of_head() / 2;
  RotaryTables tables{at::empty({length, half}, at::kFloat), at::empty({length, half}, at::kFloat)};
  auto cosine = tables.cosine.accessor<float, 2>();
  auto sine = tables.sine.accessor<float, 2>();
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.width_of_head());
    const double frequency = scaled(std::pow(config.rotary_base, exponent), config.rotary_scaling);
    for (int64_t t = 0; t < length; ++t) {
      cosine[t][i] = static_cast<float>(std::cos(static_cast<double>(t) * frequency));
      sine[t][i] = static_cast<float>(std::sin(static_cast<double>(t) * frequency));
    }
  }
  return tables;
}

RotaryTables rows_of(const RotaryTables& tables, const Tensor& positions) {
  const Tensor rows = positions.flatten();
  return {tables.cosine.index_select(0, rows), tables.sine.index_select(0, rows)};
}

}  // namespace strata::modules
