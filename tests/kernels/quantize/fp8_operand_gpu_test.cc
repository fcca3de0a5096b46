// SPDX-License-Identifier: MIT
// fp8_operand gives the bits of quantize() on the CPU, for which quantize_test.cc has the proof. The last case prints
// the rate of the kernels, next to that of a copy.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"

namespace strata::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr QuantizedFormat in(Element element) { return {element, Scaling::tensor}; }

Quantized quantized(const Tensor& x, Element element) { return quantize(x, in(element), Rounding::nearest_even, {}); }

// `x` is on the GPU, with any strides.
void expect_bits(const Tensor& x, Element element) {
  const Quantized wanted = quantized(x.cpu(), element);
  const Fp8Operand both = fp8_operand(x, in(element), OperandLayouts::both);
  expect_codes(both.rows, wanted.codes, element);
  expect_codes(both.columns, filled(wanted.codes.t()), element);
  expect_number(both.rows_scale, wanted.scales);
  const Fp8Operand rows = fp8_operand(x, in(element), OperandLayouts::rows);
  EXPECT_FALSE(rows.columns.defined());
  expect_codes(rows.rows, wanted.codes, element);
  expect_number(rows.rows_scale, wanted.scales);
  const Fp8Operand columns = fp8_operand(x, in(element), OperandLayouts::columns);
  EXPECT_FALSE(columns.rows.defined());
  expect_codes(columns.columns, filled(wanted.codes.t()), element);
  expect_number(columns.columns_scale, wanted.scales);
}

TEST(Fp8Operand, RoundsAllNumbersOf16BitsWithManyScales) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor all = all_numbers(type), magnitudes = all.view(at::kShort).bitwise_and(0x7fff);
    for (const Element element : kElements) {
      const int64_t infinity = type == at::kHalf ? 0x7c00 : 0x7f80;
      // Steps of an odd number give all mantissas and all exponents, for the largest number 0 too.
      for (int64_t largest = 0; largest < infinity; largest += 97) {
        SCOPED_TRACE(std::string(c10::toString(type)) + ", the largest has the bits " + std::to_string(largest));
        const Tensor x = at::where(magnitudes.le(largest), all.view(at::kShort), 0).view(type).cuda();
        const Quantized wanted = quantized(x.cpu(), element);
        const Fp8Operand found = fp8_operand(x, in(element), OperandLayouts::both);
        expect_codes(found.rows, wanted.codes, element);
        expect_codes(found.columns, filled(wanted.codes.t()), element);
        expect_number(found.rows_scale, wanted.scales);
        if (testing::Test::HasFailure()) return;
      }
      expect_bits(all.cuda(), element);  // with infinity and NaN
    }
  }
}

// The products of a scale with numbers halfway between two values, and the fp32 numbers next to them: their quotients
// are on both sides of the halves, and some are rounded to them.
TEST(Fp8Operand, RoundsQuotientsNextToHalves) {
  ASSERT_TRUE(at::hasCUDA());
  // Halves have at most 5 significant bits, and so have values.
  const Tensor significands = at::arange(1, 32, at::kDouble), powers = at::arange(-20, 10, at::kDouble).exp2();
  const Tensor halves = (significands.view({-1, 1}) * powers).view(-1);
  for (const Element element : kElements) {
    const float largest = element == Element::e4m3 ? 448 : 57344;
    for (const float exponent : {-149, -140, -126, -118, -110, -100, -80, -30, 0, 30, 80, 118}) {
      const Tensor amax = (1 + at::arange(0, 64, at::kDouble) / 64.17).mul_(std::exp2(exponent)).to(at::kFloat);
      for (int64_t i = 0; i < amax.numel(); ++i) {
        const Tensor scale = quantized(amax.narrow(0, i, 1).view({1, 1}), element).scales;
        const Tensor near = (halves * scale.to(at::kDouble).item<double>()).to(at::kFloat);
        Tensor x = (near.view(at::kInt).view({-1, 1}) + at::arange(-8, 8, at::kInt)).view(at::kFloat);
        x = at::where(x.abs().le(amax.narrow(0, i, 1)), x, 0);
        x = at::cat({x, x.neg(), at::full({1, 16}, amax.narrow(0, i, 1).item<float>(), at::kFloat)});
        SCOPED_TRACE(std::to_string(largest) + ", amax " + std::to_string(amax.narrow(0, i, 1).item<float>()));
        expect_bits(x.cuda(), element);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(Fp8Operand, RoundsHardRows) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor finite = finite_rows(), all = at::cat({finite, rows_with_lost_numbers()});
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      expect_bits(finite.to(type).cuda(), element);
      expect_bits(all.to(type).cuda(), element);
      for (int64_t row = 0; row < all.size(0); row += 3) expect_bits(all.narrow(0, row, 1).to(type).cuda(), element);
    }
  }
}

TEST(Fp8Operand, TakesMatricesOfAllSizesAndStrides) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const int64_t rows : {1, 15, 16, 17, 100, 127, 128, 129, 1000}) {
        for (const int64_t columns : {16, 48, 128, 144, 768, 8192}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(columns));
          expect_bits(random_matrix({rows, columns}, type), element);
        }
      }
      const Tensor wide = random_matrix({129, 1024}, type);
      expect_bits(wide.narrow(1, 64, 304), element);  // rows with a distance
      expect_bits(wide.narrow(1, 1, 304), element);   // not at a 16-byte boundary
      expect_bits(wide.narrow(0, 1, 128).t(), element);
      expect_bits(wide.narrow(0, 0, 1).expand({33, 1024}), element);
      expect_bits(random_matrix({64, 1022}, type).narrow(1, 0, 960), element);
    }
  }
}

TEST(Fp8Operand, FindsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  with_one_number_anywhere(/*rows=*/131, /*step=*/7, [](const Tensor& x, int64_t, float magnitude) {
    const Tensor scale = fp8_operand(x, in(Element::e4m3), OperandLayouts::rows).rows_scale;
    EXPECT_EQ(scale.item<float>(), magnitude / 448);
  });
}

TEST(Fp8Operand, ShowsLostNumbers) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Tensor x = random_matrix({137, 144}, type);
        x.view(-1).narrow(0, 9999, 1).fill_(lost);
        expect_bits(x, element);
      }
      expect_bits(at::zeros({137, 144}, x_options(type)), element);
      expect_bits(at::zeros({137, 144}, x_options(type)).neg(), element);
    }
  }
}

// The second operand of a matrix, as that of a weight in the backward, reads it once.
TEST(Fp8Operand, ItsAmaxMakesTheNextOperand) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const int64_t rows : {1, 100, 3000}) {
      const Tensor x = random_matrix({rows, 272}, type);
      const Fp8Operand first = fp8_operand(x, in(Element::e4m3), OperandLayouts::both);
      EXPECT_EQ(first.amax.max().item<int64_t>(), x.to(at::kFloat).abs().view(at::kInt).max().item<int64_t>());
      const Fp8Operand second = fp8_operand(x, in(Element::e4m3), OperandLayouts::both, first.amax);
      EXPECT_TRUE(second.rows.view(at::kByte).equal(first.rows.view(at::kByte)));
      EXPECT_TRUE(second.columns.view(at::kByte).equal(first.columns.view(at::kByte)));
      EXPECT_TRUE(second.rows_scale.equal(first.rows_scale));
      // It is that tensor which makes the scale.
      const Tensor twice = at::where(first.amax.ne(0), first.amax + (1 << 23), 0).to(at::kInt);
      EXPECT_TRUE(
          fp8_operand(x, in(Element::e4m3), OperandLayouts::rows, twice).rows_scale.equal(first.rows_scale * 2));
    }
  }
}

TEST(Fp8Operand, TakesMatricesWithoutElements) {
  ASSERT_TRUE(at::hasCUDA());
  for (const Element element : kElements) {
    expect_bits(at::zeros({0, 48}, x_options(at::kBFloat16)), element);
    expect_bits(at::zeros({5, 0}, x_options(at::kBFloat16)), element);
  }
}

TEST(Fp8Operand, GivesMetaTensorsForMetaTensors) {
  const Tensor x = at::empty({17, 48}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16));
  const Fp8Operand operand = fp8_operand(x, in(Element::e5m2), OperandLayouts::both);
  EXPECT_TRUE(operand.rows.is_meta() && operand.columns.is_meta() && operand.rows_scale.is_meta());
  EXPECT_EQ(operand.rows.sizes(), at::IntArrayRef({17, 48}));
  EXPECT_EQ(operand.columns.sizes(), at::IntArrayRef({48, 32}));
}

// quantize() on the GPU has the bits of the CPU too. It takes a part of the rows at a time; the first column makes the
// scale of all parts the same.
TEST(Fp8Operand, TakesMoreThan2To31Elements) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr int64_t kRows = (1 << 17) + 1, kColumns = 1 << 14, kPart = 4096;
  const Tensor x = at::empty({kRows, kColumns}, x_options(at::kBFloat16)).normal_();
  x.narrow(1, 0, 1).fill_(100);
  const Fp8Operand operand = fp8_operand(x, in(Element::e4m3), OperandLayouts::both);
  for (int64_t row = 0; row < kRows; row += kPart) {
    const int64_t count = std::min(kPart, kRows - row);
    const Quantized wanted = quantized(x.narrow(0, row, count), Element::e4m3);
    expect_number(operand.rows_scale, wanted.scales);
    expect_codes(operand.rows.narrow(0, row, count), wanted.codes, Element::e4m3);
    expect_codes(operand.columns.narrow(1, row, count), wanted.codes.t(), Element::e4m3);
  }
  const int64_t filled = operand.columns.size(1) - kRows;
  EXPECT_EQ(operand.columns.view(at::kByte).narrow(1, kRows, filled).count_nonzero().item<int64_t>(), 0);
}

TEST(Fp8Operand, RefusesWhatItCannotTake) {
  ASSERT_TRUE(at::hasCUDA());
  const auto refused = [](const Tensor& x, Element element, const std::string& part) {
    try {
      fp8_operand(x, in(element), OperandLayouts::both);
      ADD_FAILURE() << "expected: " << part;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos) << error.what();
    }
  };
  refused(at::zeros({4, 20}, x_options(at::kHalf)), Element::e4m3, "C a multiple of 16");
  refused(at::zeros({4, 16, 16}, x_options(at::kHalf)), Element::e4m3, "[R, C]");
  refused(at::zeros({4, 16}, x_options(at::kDouble)), Element::e4m3, "x is Double [4, 16]");
  refused(at::zeros({4, 16}, x_options(at::kHalf)), Element::e2m1, "element is e2m1");
  refused(at::zeros({4, 16}, at::kHalf), Element::e4m3, "x is on cpu");
  const Tensor x = at::zeros({4, 16}, x_options(at::kHalf));
  EXPECT_THROW(fp8_operand(x, in(Element::e4m3), OperandLayouts::both, at::zeros({528}, x_options(at::kInt))),
               c10::ValueError);
}

TEST(Fp8Operand, RateIsNearThatOfACopy) {
  ASSERT_TRUE(at::hasCUDA());
  struct Case {
    const char* name;
    OperandLayouts layouts;
    int64_t rows, columns;
    double bytes;  // read and written for each element
  };
  constexpr Case kCases[] = {{"both", OperandLayouts::both, 32768, 2048, 6},
                             {"both", OperandLayouts::both, 32768, 8192, 6},
                             {"both", OperandLayouts::both, 16384, 4096, 6},
                             {"rows", OperandLayouts::rows, 32768, 2048, 5},
                             {"columns", OperandLayouts::columns, 32768, 2048, 5}};
  for (const Case& one : kCases) {
    const Tensor x = random_matrix({one.rows, one.columns}, at::kBFloat16), copy = at::empty_like(x);
    const double elements = static_cast<double>(x.numel());
    const double rate = elements * one.bytes / seconds_of([&] { fp8_operand(x, in(Element::e4m3), one.layouts); });
    const double copy_rate = elements * 4 / seconds_of([&] { copy.copy_(x); });
    std::printf("%s %ld x %ld: %.0f GB/s, a copy %.0f GB/s, %.2f of it\n", one.name, static_cast<long>(one.rows),
                static_cast<long>(one.columns), rate / 1e9, copy_rate / 1e9, rate / copy_rate);
    EXPECT_GE(rate, 0.7 * copy_rate);
  }
}

}  // namespace
}  // namespace strata::kernels
