// SPDX-License-Identifier: MIT
#include "kernels/quantize/element_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/where.h>

#include <cstdint>
#include <limits>

namespace strata::kernels {
namespace {

constexpr int64_t kBias = 127, kMantissaBits = 23;  // exponent bias and mantissa bits of fp32

constexpr int64_t fp32_bits_of_power(int64_t exponent) { return (kBias + exponent) << kMantissaBits; }

// The distance of the two values around each number, a power of two: 2^(exponent of x - mantissa bits). It is the same
// for all subnormal values.
Tensor distance_around(const Tensor& x, const ElementFacts& facts) {
  const Tensor bits =
      x.view(at::kInt).bitwise_and(0xff << kMantissaBits).clamp_min_(fp32_bits_of_power(facts.smallest_exponent()));
  return bits.sub_(facts.mantissa_bits << kMantissaBits).view(at::kFloat);
}

}  // namespace

Tensor rounded_to_element(const Tensor& x, Element element, const Tensor& hash) {
  const ElementFacts facts = facts_of(element);
  const Tensor clamped = at::clamp(x, -facts.largest, facts.largest);
  const Tensor distance = distance_around(clamped, facts);
  Tensor count = clamped / distance;  // exact
  if (hash.defined()) {
    const Tensor towards_zero = count.trunc();
    const Tensor rest = (count - towards_zero).abs().mul_(4294967296.0);  // exact in fp32
    const Tensor away = hash.to(at::kDouble).lt(rest);
    count = towards_zero.abs().add_(away).copysign_(clamped);
  } else {
    count.round_();  // halves to even
  }
  return count.mul_(distance);
}

Tensor codes_of(const Tensor& values, Element element) {
  const ElementFacts facts = facts_of(element);
  const int64_t sign_bit = 1 << (facts.bits() - 1);
  const Tensor distance = distance_around(values, facts), nan = values.ne(values);
  const Tensor count = (values.abs() / distance).masked_fill_(nan, 0).to(at::kInt);
  const Tensor sign = values.view(at::kInt).bitwise_right_shift(31).bitwise_and_(sign_bit);
  // A count of 2^mantissa_bits or more is a value with the implicit 1, which adds 1 to the exponent field.
  const Tensor smaller_intervals = distance.view(at::kInt)
                                       .bitwise_right_shift(kMantissaBits)
                                       .sub_(kBias + facts.smallest_exponent() - facts.mantissa_bits);
  const Tensor codes = smaller_intervals.bitwise_left_shift_(facts.mantissa_bits).add_(count).add_(sign);
  return codes.masked_fill_(nan, facts.has_nan ? sign_bit - 1 : 0).to(at::kByte);
}

Tensor values_of(const Tensor& given, Element element) {
  const ElementFacts facts = facts_of(element);
  const int64_t sign_bit = 1 << (facts.bits() - 1);
  const Tensor codes = given.to(at::kInt), magnitude = codes.bitwise_and(sign_bit - 1);
  const Tensor field = magnitude.bitwise_right_shift(facts.mantissa_bits).clamp_min_(1);
  const Tensor count = magnitude - (field - 1).bitwise_left_shift_(facts.mantissa_bits);
  const Tensor exponent = field + (kBias - facts.bias - facts.mantissa_bits);
  const Tensor distance = exponent.bitwise_left_shift_(kMantissaBits).view(at::kFloat);
  const Tensor values = count.to(at::kFloat).mul_(distance);
  if (facts.has_infinity) {
    const int64_t infinity = sign_bit - (1 << facts.mantissa_bits);
    values.masked_fill_(magnitude.eq(infinity), std::numeric_limits<float>::infinity());
    values.masked_fill_(magnitude.gt(infinity), std::numeric_limits<float>::quiet_NaN());
  } else if (facts.has_nan) {
    values.masked_fill_(magnitude.eq(sign_bit - 1), std::numeric_limits<float>::quiet_NaN());
  }
  return at::where(codes.bitwise_and(sign_bit).ne(0), values.neg(), values);
}

}  // namespace strata::kernels
