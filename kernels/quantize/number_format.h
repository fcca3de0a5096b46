// SPDX-License-Identifier: MIT
// Number formats of 8, 6 and 4 bits: the elements, the scalings, and the names of their combinations.
//
// An element is a sign, an exponent and a mantissa. Its value is (-1)^sign * 2^(exponent - bias) * 1.mantissa, and
// (-1)^sign * 2^(1 - bias) * 0.mantissa if the exponent field is 0 (subnormal). Sources: OCP 8-bit Floating Point
// Specification 1.0 (e4m3, e5m2) and OCP Microscaling Formats Specification 1.0 (e3m2, e2m3, e2m1, and the scale E8M0).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace strata::kernels {

enum class Element { e4m3, e5m2, e3m2, e2m3, e2m1 };

inline constexpr std::array<std::string_view, 5> kElementNames = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"};

constexpr std::string_view name(Element element) { return kElementNames[static_cast<size_t>(element)]; }

struct ElementFacts {
  int exponent_bits, mantissa_bits, bias;
  float largest;  // finite value
  // e5m2 is like IEEE 754: the largest exponent field is infinity and NaN. e4m3 has no infinity, and its NaN is the
  // code of all ones. The others have finite values only.
  bool has_infinity, has_nan;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int smallest_exponent() const { return 1 - bias; }  // of a value that is not subnormal
  constexpr int largest_exponent() const { return (1 << exponent_bits) - 1 - bias - (has_infinity ? 1 : 0); }
};

constexpr ElementFacts facts_of(Element element) {
  switch (element) {
    case Element::e4m3:
      return {4, 3, 7, 448, false, true};
    case Element::e5m2:
      return {5, 2, 15, 57344, true, true};
    case Element::e3m2:
      return {3, 2, 3, 28, false, false};
    case Element::e2m3:
      return {2, 3, 1, 7.5, false, false};
    case Element::e2m1:
      return {2, 1, 1, 6, false, false};
  }
  return {};  // unreachable: the switch is complete
}

// Which elements share a scale. An element's value times its scale is the number that it stands for.
//   tensor  one fp32 scale for the tensor
//   row     one fp32 scale for each row
//   block   one fp32 scale for each 128 elements of a row
//   mx      one E8M0 scale (a power of two) for each 32 elements of a row: Microscaling (MX)
//   nv      one E4M3 scale for each 16 elements of a row, times one fp32 scale for the tensor: NVFP4
enum class Scaling { tensor, row, block, mx, nv };

inline constexpr std::array<std::string_view, 5> kScalingNames = {"tensor", "row", "block", "mx", "nv"};

constexpr std::string_view name(Scaling scaling) { return kScalingNames[static_cast<size_t>(scaling)]; }

// Returns the number of elements of a row that share a scale, which must divide its width; 0 if the width is free.
constexpr int64_t block_size(Scaling scaling) {
  return scaling == Scaling::block ? 128 : scaling == Scaling::mx ? 32 : scaling == Scaling::nv ? 16 : 0;
}

struct QuantizedFormat {
  Element element;
  Scaling scaling;

  bool operator==(const QuantizedFormat&) const = default;
};

// The formats to which the operands of the three products of a linear layer are rounded.
struct ProductFormats {
  QuantizedFormat values;     // format of inputs and weights
  QuantizedFormat gradients;  // format of the gradients of outputs
};

// A name, and an element and a scaling that have this name. A name has a line for each of its combinations.
struct NamedFormat {
  std::string_view name;
  QuantizedFormat format;
};

// All formats that exist. Other combinations of element and scaling have no name, and quantize() refuses them.
inline constexpr std::array<NamedFormat, 12> kNamedFormats = {{
    {"fp8", {Element::e4m3, Scaling::tensor}},
    {"fp8", {Element::e4m3, Scaling::row}},
    {"fp8", {Element::e4m3, Scaling::block}},
    {"fp8", {Element::e5m2, Scaling::tensor}},
    {"fp8", {Element::e5m2, Scaling::row}},
    {"fp8", {Element::e5m2, Scaling::block}},
    {"mxfp8", {Element::e4m3, Scaling::mx}},
    {"mxfp8", {Element::e5m2, Scaling::mx}},
    {"mxfp6", {Element::e2m3, Scaling::mx}},
    {"mxfp6", {Element::e3m2, Scaling::mx}},
    {"mxfp4", {Element::e2m1, Scaling::mx}},
    {"nvfp4", {Element::e2m1, Scaling::nv}},
}};

// Returns the name of a format, or "" if the element does not have this scaling.
constexpr std::string_view name(QuantizedFormat format) {
  const auto* found = std::ranges::find(kNamedFormats, format, &NamedFormat::format);
  return found == kNamedFormats.end() ? "" : found->name;
}

// nearest_even: to the nearest value, and to the one with an even code if two are equally near.
// stochastic: to one of the two neighbors, with probabilities that make the mean equal to the number.
enum class Rounding { nearest_even, stochastic };

}  // namespace strata::kernels
