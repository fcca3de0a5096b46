// SPDX-License-Identifier: MIT
#include "tests/kernels/quantize/standard_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace strata::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Layout {
  int exponent_bits, mantissa_bits, bias;
  int finite_codes;  // without sign; infinity and NaN follow
};

// OCP 8-bit Floating Point 1.0, table 1, and OCP Microscaling Formats 1.0, tables 3 to 5.
Layout layout_of(Element element) {
  switch (element) {
    case Element::e4m3:
      return {4, 3, 7, 0x7f};  // S.1111.111 is NaN
    case Element::e5m2:
      return {5, 2, 15, 0x7c};  // S.11111.00 is infinity, the rest of the exponent NaN
    case Element::e3m2:
      return {3, 2, 3, 0x20};
    case Element::e2m3:
      return {2, 3, 1, 0x20};
    case Element::e2m1:
      return {2, 1, 1, 0x08};
  }
  return {};
}

// Values of the finite codes without sign, which ascend, and one more, which has no code.
std::vector<double> enumerated(Element element, Mutation mutation) {
  const Layout layout = layout_of(element);
  const int bias = layout.bias + (mutation == Mutation::bias_one_more ? 1 : 0);
  std::vector<double> values;
  for (int code = 0; code <= layout.finite_codes; ++code) {
    const int exponent = code >> layout.mantissa_bits, mantissa = code & ((1 << layout.mantissa_bits) - 1);
    const double fraction = std::ldexp(mantissa, -layout.mantissa_bits);
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
  }
  return values;
}

const std::vector<double>& magnitudes(Element element, Mutation mutation) {
  static std::map<std::pair<Element, Mutation>, std::vector<double>> tables;
  std::vector<double>& table = tables[{element, mutation}];
  if (table.empty()) table = enumerated(element, mutation);
  return table;
}

int sign_bit(Element element) { return 1 << (layout_of(element).exponent_bits + layout_of(element).mantissa_bits); }

double largest_value(Element element) {
  return magnitudes(element, Mutation::none)[layout_of(element).finite_codes - 1];
}

// floor(log2(amax)) - emax of a block whose largest absolute value is amax > 0.
int shared_exponent(double amax, Element element, Mutation mutation) {
  int exponent = 0;  // amax = fraction * 2^exponent, 0.5 <= fraction < 1
  const double fraction = std::frexp(amax, &exponent);
  const bool up = mutation == Mutation::exponent_up && fraction > 0.5;
  return std::max(-127, exponent - 1 + (up ? 1 : 0) - std::ilogb(largest_value(element)));
}

class Quantizer {
 public:
  Quantizer(const std::vector<float>& x, QuantizedFormat format, Mutation mutation)
      : x_(x),
        format_(format),
        mutation_(mutation),
        values_(all_values(format.element)),
        scale_values_(all_values(Element::e4m3)) {
    result_.codes.resize(x.size());
    result_.decoded.resize(x.size());
    if (format.scaling != Scaling::nv) return;
    const float divisor = mutation == Mutation::tensor_scale_of_e2m1 ? 6.0f : 6.0f * 448.0f;
    result_.tensor_scale = scale(amax(0, x.size()), divisor);
  }

  void add_block(size_t first, size_t last) {
    const float largest = amax(first, last);
    if (format_.scaling == Scaling::mx) return add_mx_block(first, last, largest);
    float factor = scale(largest, static_cast<float>(largest_value(format_.element)));
    float stored = factor;
    if (format_.scaling == Scaling::nv) {
      const float wanted = largest / 6.0f / result_.tensor_scale;
      const Mutation rounding = mutation_ == Mutation::scale_truncated ? Mutation::truncated : Mutation::none;
      stored = !std::isfinite(wanted) ? 0x7f : nearest_code(std::max(wanted, 0x1p-9f), Element::e4m3, rounding);
      factor = static_cast<float>(scale_values_[static_cast<size_t>(stored)]) * result_.tensor_scale;
    }
    result_.scales.push_back(stored);
    for (size_t i = first; i < last; ++i) {
      const float quotient = x_[i] / factor;
      result_.codes[i] = nearest_code(quotient, format_.element, mutation_);
      result_.decoded[i] =
          std::isnan(factor) ? static_cast<float>(kNan) : static_cast<float>(values_[result_.codes[i]]) * factor;
    }
  }

  StandardQuantized result() const { return result_; }

 private:
  // NaN if one of the numbers is not finite.
  float amax(size_t first, size_t last) const {
    float largest = 0;
    for (size_t i = first; i < last; ++i) {
      if (!std::isfinite(x_[i])) {
        return mutation_ == Mutation::infinity_is_largest && !std::isnan(x_[i]) ? std::numeric_limits<float>::max()
                                                                                : static_cast<float>(kNan);
      }
      largest = std::max(largest, std::abs(x_[i]));
    }
    return largest;
  }

  static float scale(float amax, float divisor) {
    return std::isnan(amax) ? amax : std::max(amax / divisor, 0x1p-117f);
  }

  void add_mx_block(size_t first, size_t last, float largest) {
    const bool lost = std::isnan(largest);
    const int exponent = lost ? 0 : largest == 0 ? -127 : shared_exponent(largest, format_.element, mutation_);
    const int wrong = mutation_ == Mutation::scale_bias_one_more ? 1 : 0;
    result_.scales.push_back(static_cast<float>(lost ? 255 : exponent + 127 + wrong));
    for (size_t i = first; i < last; ++i) {
      const double quotient = lost ? kNan : std::ldexp(static_cast<double>(x_[i]), -exponent);
      result_.codes[i] = nearest_code(quotient, format_.element, mutation_);
      result_.decoded[i] = static_cast<float>(lost ? kNan : std::ldexp(values_[result_.codes[i]], exponent + wrong));
    }
  }

  const std::vector<float>& x_;
  const QuantizedFormat format_;
  const Mutation mutation_;
  const std::vector<double> values_, scale_values_;
  StandardQuantized result_;
};

}  // namespace

bool applies(Mutation mutation, QuantizedFormat format) {
  switch (mutation) {
    case Mutation::exponent_up:
    case Mutation::scale_bias_one_more:
    case Mutation::no_saturation:  // the quotients of other scalings are at most the largest value
      return format.scaling == Scaling::mx;
    case Mutation::smaller_blocks:
      return block_size(format.scaling) > 0;
    case Mutation::scale_truncated:
    case Mutation::tensor_scale_of_e2m1:
      return format.scaling == Scaling::nv;
    default:
      return true;
  }
}

std::vector<double> all_values(Element element, Mutation mutation) {
  const Layout layout = layout_of(element);
  std::vector<double> values = magnitudes(element, mutation);
  values.resize(static_cast<size_t>(layout.finite_codes));
  if (element == Element::e5m2) values.push_back(kInfinity);
  values.resize(static_cast<size_t>(sign_bit(element)), kNan);
  for (int code = 0; code < sign_bit(element); ++code) values.push_back(-values[static_cast<size_t>(code)]);
  return values;
}

uint8_t nearest_code(double x, Element element, Mutation mutation) {
  const int sign = std::signbit(x) ? sign_bit(element) : 0, finite_codes = layout_of(element).finite_codes;
  if (std::isnan(x)) return element == Element::e4m3 || element == Element::e5m2 ? 0x7f : 0;
  const std::vector<double>& values = magnitudes(element, mutation);
  int above = 1;  // the first value that is larger than |x|; its predecessor is not
  while (above < finite_codes && values[static_cast<size_t>(above)] <= std::abs(x)) ++above;
  // Exact: twice a number, and a sum of two neighbors.
  const double twice = 2 * std::abs(x),
               middle = values[static_cast<size_t>(above - 1)] + values[static_cast<size_t>(above)];
  const bool tie_goes_up = mutation == Mutation::ties_away || above % 2 == 0;
  const bool up = mutation != Mutation::truncated && (twice > middle || (twice == middle && tie_goes_up));
  int code = up ? above : above - 1;
  if (mutation != Mutation::no_saturation) code = std::min(code, finite_codes - 1);
  if (mutation == Mutation::subnormals_flushed && code < 1 << layout_of(element).mantissa_bits) code = 0;
  return static_cast<uint8_t>((sign + code) % (2 * sign_bit(element)));
}

StandardQuantized standard_quantized(const std::vector<float>& x, int64_t rows, QuantizedFormat format,
                                     Mutation mutation) {
  Quantizer quantizer(x, format, mutation);
  size_t size = x.size() / static_cast<size_t>(rows);
  if (format.scaling == Scaling::tensor) size = x.size();
  if (block_size(format.scaling) > 0) size = static_cast<size_t>(block_size(format.scaling));
  if (mutation == Mutation::smaller_blocks) size /= 2;
  for (size_t first = 0; first < x.size(); first += size) quantizer.add_block(first, first + size);
  return quantizer.result();
}

}  // namespace strata::kernels
