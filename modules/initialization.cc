// SPDX-License-Identifier: MIT
#include "modules/initialization.h"

#include <ATen/core/PhiloxRNGEngine.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace strata::modules {
namespace {

constexpr double kDeviation = 0.02;

// The FNV-1a hash, 64 bits.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

// Returns a number in (0, 1], so that the logarithm below is finite.
double uniform(uint32_t bits) { return (static_cast<double>(bits) + 1.0) / 4294967296.0; }

// Returns the four normal values of elements 4 * quad ... 4 * quad + 3.
std::array<float, 4> normals(uint64_t seed, uint64_t stream, uint64_t quad, double deviation) {
  at::Philox4_32 engine(seed, stream, quad);
  std::array<float, 4> result;
  for (size_t pair = 0; pair < 2; ++pair) {
    const double radius = deviation * std::sqrt(-2.0 * std::log(uniform(engine())));
    const double angle = 2.0 * std::numbers::pi * uniform(engine());
    result[2 * pair] = static_cast<float>(radius * std::cos(angle));
    result[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return result;
}

// Returns the four values between -bound and bound of elements 4 * quad ... 4 * quad + 3.
std::array<float, 4> uniforms(uint64_t seed, uint64_t stream, uint64_t quad, double bound) {
  at::Philox4_32 engine(seed, stream, quad);
  std::array<float, 4> result;
  for (float& value : result) value = static_cast<float>(bound * (2 * uniform(engine()) - 1));
  return result;
}

}  // namespace

void initialize_parameter(const Parameter& parameter, uint64_t seed, int64_t layers, int64_t offset, int64_t count,
                          float* values) {
  double deviation = kDeviation;
  switch (parameter.initialization) {
    case Initialization::zeros:
      std::fill_n(values, count, 0.0f);
      return;
    case Initialization::ones:
      std::fill_n(values, count, 1.0f);
      return;
    case Initialization::constant:
      std::fill_n(values, count, static_cast<float>(parameter.constant));
      return;
    case Initialization::residual:
      deviation /= std::sqrt(2.0 * static_cast<double>(layers));
      break;
    case Initialization::scaled_by_inputs:
      deviation = 1 / std::sqrt(3.0 * static_cast<double>(parameter.shape.back()));
      break;
    case Initialization::normal:
    case Initialization::uniform:
      break;
  }
  const uint64_t stream = hash_of(parameter.name);
  std::array<float, 4> quad{};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = offset + i;
    if (i == 0 || element % 4 == 0) {
      const auto index = static_cast<uint64_t>(element / 4);
      quad = parameter.initialization == Initialization::uniform ? uniforms(seed, stream, index, parameter.constant)
                                                                 : normals(seed, stream, index, deviation);
    }
    values[i] = quad[static_cast<size_t>(element % 4)];
  }
}

}  // namespace strata::modules
