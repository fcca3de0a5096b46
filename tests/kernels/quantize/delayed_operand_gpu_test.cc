// SPDX-License-Identifier: MIT
// fp8_operand with delayed scales gives the bits of quantize() on the CPU, for which delayed_scale_test.cc has the
// proof, and records the largest magnitude. The last case prints times of the kernels.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <string>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"

namespace strata::kernels {
namespace {

constexpr OperandLayouts kLayouts[] = {OperandLayouts::rows, OperandLayouts::columns, OperandLayouts::both};

constexpr QuantizedFormat in(Element element) { return {element, Scaling::tensor}; }

DelayedScale scale_on(at::Device device, double past, double present = 0) {
  const auto options = at::dtype(at::kFloat).device(device);
  return {at::full({1}, past, options), at::full({1}, present, options)};
}

// `x` is on the GPU, with any strides.
void expect_bits(const Tensor& x, Element element, double past, double present = 0) {
  const DelayedScale cpu = scale_on(at::kCPU, past, present);
  const Quantized wanted = quantize(x.cpu(), in(element), Rounding::nearest_even, {}, cpu);
  for (const OperandLayouts layouts : kLayouts) {
    const DelayedScale gpu = scale_on(at::kCUDA, past, present);
    const Fp8Operand found = fp8_operand(x, in(element), layouts, /*amax=*/{}, gpu);
    if (found.rows.defined()) expect_codes(found.rows, wanted.codes, element);
    if (found.columns.defined()) expect_codes(found.columns, filled(wanted.codes.t()), element);
    expect_number(layouts == OperandLayouts::columns ? found.columns_scale : found.rows_scale, wanted.scales);
    expect_number(gpu.present, cpu.present);
    EXPECT_EQ(gpu.past.item<float>(), static_cast<float>(past));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DelayedOperand, HasTheBitsOfTheDefinition) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const int64_t rows : {1, 15, 16, 17, 127, 129, 1000}) {
        for (const int64_t columns : {16, 48, 128, 144, 2048}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::string(name(element)) + " " +
                       std::to_string(rows) + " x " + std::to_string(columns));
          const Tensor x = random_matrix({rows, columns}, type);
          // Without a history; with one below, near and far above the largest number; with a larger number recorded.
          expect_bits(x, element, /*past=*/0);
          for (const double past : {0x1p-125, 1e-6, 0.7, 3.0, 5.0, 1000.0}) expect_bits(x, element, past);
          expect_bits(x, element, /*past=*/2, /*present=*/100);
          expect_bits(x, element, /*past=*/0, /*present=*/1);
        }
      }
      const Tensor wide = random_matrix({129, 1024}, type);
      expect_bits(wide.narrow(1, 64, 304), element, /*past=*/3);
      expect_bits(wide.narrow(1, 1, 304), element, /*past=*/3);  // not at a 16-byte boundary
    }
  }
}

TEST(DelayedOperand, RoundsAllNumbersOf16Bits) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor all = all_numbers(type).to(at::kFloat);
    for (const Element element : kElements) {
      for (const double past : {0x1p-20, 1.0, 3.7, 0x1p10}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::string(name(element)) + " " + std::to_string(past));
        // 2^127 scales and more may become NaN.
        const Tensor numbers = all.masked_fill(all.abs().ge(past * 0x1p100).logical_and(all.isfinite()), 0).to(type);
        expect_bits(numbers.cuda(), element, past);
      }
    }
  }
}

TEST(DelayedOperand, RecordsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  with_one_number_anywhere(/*rows=*/131, /*step=*/7, [](const Tensor& x, int64_t place, float magnitude) {
    const DelayedScale scale = scale_on(at::kCUDA, /*past=*/1);
    fp8_operand(x, in(Element::e4m3), place % 3 == 0 ? OperandLayouts::rows : OperandLayouts::both, /*amax=*/{}, scale);
    EXPECT_EQ(scale.present.item<float>(), magnitude);
  });
}

TEST(DelayedOperand, ShowsLostNumbers) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Tensor x = random_matrix({137, 144}, type);
        x.view(-1).narrow(0, 9999, 1).fill_(lost);
        for (const double past : {0.0, 2.0}) expect_bits(x, element, past);
      }
    }
  }
}

// A layer of an evaluation, and one whose input comes with its largest magnitude: twice that of x, so that the test
// sees which one is recorded.
TEST(DelayedOperand, RecordsNothingOrTakesAKnownMagnitude) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor x = random_matrix({300, 272}, at::kBFloat16);
  const Fp8Operand current = fp8_operand(x, in(Element::e4m3), OperandLayouts::both);
  const Tensor twice = (current.amax + (1 << 23)).mul_(current.amax.ne(0)).to(at::kInt);
  const auto scale_of = [&](double past, const Tensor& amax, bool records) {
    DelayedScale scale = scale_on(at::kCUDA, past);
    if (!records) scale.present = Tensor();
    const Fp8Operand found = fp8_operand(x, in(Element::e4m3), OperandLayouts::both, amax, scale);
    if (records) {
      EXPECT_EQ(scale.present.item<float>(), (amax.defined() ? 2 : 1) * x.to(at::kFloat).abs().max().item<float>());
    }
    return found.rows_scale.item<float>();
  };
  const float x_scale = current.rows_scale.item<float>();
  for (const bool records : {false, true}) {
    EXPECT_EQ(scale_of(0, {}, records), x_scale);
    EXPECT_EQ(scale_of(0, twice, records), 2 * x_scale);
    EXPECT_EQ(scale_of(448, {}, records), 1);
    EXPECT_EQ(scale_of(448, twice, records), 1);
  }
}

TEST(DelayedOperand, TakesOneReadOfTheMatrix) {
  ASSERT_TRUE(at::hasCUDA());
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32768, 2048}, {32768, 8192}, {16384, 4096}}) {
    const Tensor x = random_matrix({rows, columns}, at::kBFloat16), copy = at::empty_like(x);
    const DelayedScale with = scale_on(at::kCUDA, 3), without = scale_on(at::kCUDA, 0);
    const auto seconds = [&](const DelayedScale& scale) {
      return seconds_of([&] { fp8_operand(x, in(Element::e4m3), OperandLayouts::both, /*amax=*/{}, scale); });
    };
    const double delayed = seconds(with), first = seconds(without), current = seconds({});
    const double copy_seconds = seconds_of([&] { copy.copy_(x); });  // which moves 4 bytes for each element too
    std::printf("%ld x %ld: delayed %.1f us, without a history %.1f us, current %.1f us, a copy %.1f us\n",
                static_cast<long>(rows), static_cast<long>(columns), delayed * 1e6, first * 1e6, current * 1e6,
                copy_seconds * 1e6);
    EXPECT_LT(delayed, 0.9 * current);
    EXPECT_LT(delayed, 1.5 * copy_seconds);
  }
}

}  // namespace
}  // namespace strata::kernels
