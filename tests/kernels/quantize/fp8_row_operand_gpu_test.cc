// SPDX-License-Identifier: MIT
// fp8_operand with scaling `row` gives the bits of quantize() on the CPU, of the matrix and of its transpose. The last
// case prints the rate of the kernels, next to that of a copy.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
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
constexpr float kSmallestScale = 0x1p-117f;

constexpr QuantizedFormat by_row(Element element) { return {element, Scaling::row}; }

Quantized quantized(const Tensor& x, Element element) {
  return quantize(x, by_row(element), Rounding::nearest_even, {});
}

void expect_scales(const Tensor& found, const Tensor& scales) {
  const Tensor wanted = scales.view(-1);
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const Tensor here = found.to(wanted.device());
  const Tensor different = here.ne(wanted).logical_and_(here.eq(here).logical_or_(wanted.eq(wanted)));
  const int64_t first = wanted.numel() == 0 ? 0 : different.to(at::kInt).argmax().item<int64_t>();
  EXPECT_FALSE(different.any().item<bool>())
      << different.sum().item<int64_t>() << " of " << wanted.numel() << " scales, the first at " << first << ": "
      << here[first].item<float>() << " instead of " << wanted[first].item<float>();
}

// `x` is on the GPU, with any strides.
void expect_bits(const Tensor& x, Element element) {
  const Quantized quantized_rows = quantized(x.cpu(), element), quantized_columns = quantized(x.cpu().t(), element);
  const auto expect = [&](OperandLayouts layouts) {
    const Fp8Operand found = fp8_operand(x, by_row(element), layouts);
    EXPECT_EQ(found.rows.defined(), layouts != OperandLayouts::columns);
    EXPECT_EQ(found.rows_scale.defined(), found.rows.defined());
    EXPECT_EQ(found.columns.defined(), layouts != OperandLayouts::rows);
    EXPECT_EQ(found.columns_scale.defined(), found.columns.defined());
    if (found.rows.defined()) {
      expect_codes(found.rows, quantized_rows.codes, element);
      expect_scales(found.rows_scale, quantized_rows.scales);
    }
    if (found.columns.defined()) {
      expect_codes(found.columns, filled(quantized_columns.codes), element);
      expect_scales(found.columns_scale, quantized_columns.scales);
    }
  };
  for (const OperandLayouts layouts : {OperandLayouts::both, OperandLayouts::rows, OperandLayouts::columns}) {
    SCOPED_TRACE("layouts " + std::to_string(static_cast<int>(layouts)));
    expect(layouts);
  }
}

// Rows and columns of very different sizes, so that their scales differ.
Tensor uneven_matrix(at::IntArrayRef sizes, at::ScalarType type) {
  const auto factors = [&](at::IntArrayRef shape) { return random_matrix(shape, at::kFloat).exp(); };
  return (random_matrix(sizes, at::kFloat) * factors({sizes[0], 1}) * factors({1, sizes[1]})).to(type);
}

TEST(Fp8RowOperand, RoundsAllNumbersOf16Bits) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor all = all_numbers(type), magnitudes = all.view(at::kShort).bitwise_and(0x7fff);
    for (const Element element : kElements) {
      for (int64_t largest = 1; largest < 0x7c00; largest += 2309) {  // below infinity in both types
        SCOPED_TRACE(std::string(c10::toString(type)) + ", the largest has the bits " + std::to_string(largest));
        const Tensor x = at::where(magnitudes.le(largest), all.view(at::kShort), 0).view(type).cuda();
        expect_bits(x, element);
        if (testing::Test::HasFailure()) return;
      }
      expect_bits(all.cuda(), element);  // with infinity and NaN
    }
  }
}

TEST(Fp8RowOperand, RoundsHardRowsAndColumns) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor finite = finite_rows(), lost = rows_with_lost_numbers();
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const Tensor& rows : {finite, at::cat({finite, lost})}) {
        expect_bits(rows.to(type).cuda(), element);
        expect_bits(rows.narrow(0, 0, rows.size(0) / 16 * 16).t().contiguous().to(type).cuda(), element);
      }
    }
  }
}

TEST(Fp8RowOperand, TakesMatricesOfAllSizesAndStrides) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const int64_t rows : {1, 15, 16, 17, 31, 33, 127, 129, 255, 256, 257, 1000}) {
        for (const int64_t columns : {16, 48, 128, 144, 256, 272, 2048}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(columns));
          expect_bits(uneven_matrix({rows, columns}, type), element);
          if (testing::Test::HasFailure()) return;
        }
      }
      const Tensor wide = uneven_matrix({129, 1024}, type);
      expect_bits(wide.narrow(1, 64, 304), element);  // rows with a distance
      expect_bits(wide.narrow(1, 1, 304), element);   // not at a 16-byte boundary
      expect_bits(wide.narrow(0, 1, 128).t(), element);
      expect_bits(wide.narrow(0, 0, 1).expand({33, 1024}), element);
    }
  }
}

// Each number decides about the scales of its row and its column, and about no other.
TEST(Fp8RowOperand, FindsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  with_one_number_anywhere(/*rows=*/291, /*step=*/37, [](const Tensor& x, int64_t place, float magnitude) {
    const Fp8Operand found = fp8_operand(x, by_row(Element::e4m3), OperandLayouts::both);
    for (const auto& [scales, line] :
         {std::pair(found.rows_scale.cpu(), place / 272), std::pair(found.columns_scale.cpu(), place % 272)}) {
      const Tensor expected = at::full(scales.sizes(), kSmallestScale);
      expected[line] = magnitude / 448;
      EXPECT_TRUE(scales.equal(expected));
    }
  });
}

// A large row changes no code of another row. It changes all columns.
TEST(Fp8RowOperand, AnOutlierHasItsOwnScale) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor x = random_matrix({300, 512}, at::kBFloat16), with_outlier = x.clone();
  with_outlier[7].mul_(0x1p20);
  const auto rows = [](const Tensor& matrix) {
    return fp8_operand(matrix, by_row(Element::e4m3), OperandLayouts::both).rows.view(at::kByte);
  };
  EXPECT_TRUE(rows(x).equal(rows(with_outlier)));  // a power of two changes the scale, and not the codes
  for (const Element element : kElements) {
    expect_bits(with_outlier, element);
    // The checks above distinguish the scales of rows and of columns, and of neighbors.
    const Quantized wanted = quantized(with_outlier.cpu(), element);
    EXPECT_GT(wanted.codes.ne(quantized(with_outlier.cpu().t(), element).codes.t()).sum().item<int64_t>(), 1000);
    EXPECT_TRUE(wanted.scales.slice(0, 6, 8).ne(wanted.scales.slice(0, 7, 9)).all().item<bool>());
  }
}

TEST(Fp8RowOperand, ShowsLostNumbers) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Tensor x = uneven_matrix({137, 144}, type);
        x.view(-1).narrow(0, 9999, 1).fill_(lost);
        expect_bits(x, element);
        const Fp8Operand found = fp8_operand(x, by_row(element), OperandLayouts::both);
        EXPECT_EQ(found.rows_scale.isnan().sum().item<int64_t>(), 1);
        EXPECT_EQ(found.columns_scale.isnan().sum().item<int64_t>(), 1);
      }
      expect_bits(at::zeros({137, 144}, x_options(type)), element);
      expect_bits(at::zeros({137, 144}, x_options(type)).neg(), element);
    }
  }
}

// The second operand of a matrix, as that of a weight in the backward, reads it once.
TEST(Fp8RowOperand, ItsAmaxMakesTheNextOperand) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const int64_t rows : {1, 100, 3000}) {
      const Tensor x = uneven_matrix({rows, 272}, type);
      const Fp8Operand first = fp8_operand(x, by_row(Element::e4m3), OperandLayouts::rows);
      const Tensor magnitudes = x.to(at::kFloat).abs();
      EXPECT_TRUE(first.amax.equal(at::cat({magnitudes.amax(1), magnitudes.amax(0)}).view(at::kInt)));
      const Fp8Operand second = fp8_operand(x, by_row(Element::e4m3), OperandLayouts::both, first.amax);
      EXPECT_TRUE(second.rows.view(at::kByte).equal(first.rows.view(at::kByte)));
      expect_codes(second.columns, filled(quantized(x.cpu().t(), Element::e4m3).codes), Element::e4m3);
      // It is that tensor which makes the scales.
      const Tensor twice = first.amax + (1 << 23);
      const Fp8Operand third = fp8_operand(x, by_row(Element::e4m3), OperandLayouts::both, twice.to(at::kInt));
      EXPECT_TRUE(third.rows_scale.equal(second.rows_scale * 2));
      EXPECT_TRUE(third.columns_scale.equal(second.columns_scale * 2));
    }
  }
}

TEST(Fp8RowOperand, TakesMatricesWithoutElements) {
  ASSERT_TRUE(at::hasCUDA());
  for (const Element element : kElements) {
    expect_bits(at::zeros({0, 48}, x_options(at::kBFloat16)), element);
    expect_bits(at::zeros({5, 0}, x_options(at::kBFloat16)), element);
  }
}

// quantize() on the GPU has the bits of the CPU too. It takes a part of the lines at a time.
TEST(Fp8RowOperand, TakesMoreThan2To31Elements) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr int64_t kRows = (1 << 17) + 1, kColumns = 1 << 14;
  const Tensor x = at::empty({kRows, kColumns}, x_options(at::kBFloat16)).normal_();
  const Fp8Operand operand = fp8_operand(x, by_row(Element::e4m3), OperandLayouts::both);
  const auto expect_part = [](const Tensor& lines, const Tensor& codes, const Tensor& scales) {
    const Quantized wanted = quantized(lines, Element::e4m3);
    expect_scales(scales, wanted.scales);
    expect_codes(codes, wanted.codes, Element::e4m3);
  };
  for (int64_t row = 0; row < kRows; row += 4096) {
    const int64_t count = std::min<int64_t>(4096, kRows - row);
    expect_part(x.narrow(0, row, count), operand.rows.narrow(0, row, count), operand.rows_scale.narrow(0, row, count));
  }
  for (int64_t column = 0; column < kColumns; column += 512) {
    expect_part(x.narrow(1, column, 512).t(), operand.columns.narrow(0, column, 512).narrow(1, 0, kRows),
                operand.columns_scale.narrow(0, column, 512));
  }
  const int64_t added = operand.columns.size(1) - kRows;
  EXPECT_EQ(operand.columns.view(at::kByte).narrow(1, kRows, added).count_nonzero().item<int64_t>(), 0);
}

TEST(Fp8RowOperand, RateIsNearThatOfACopy) {
  ASSERT_TRUE(at::hasCUDA());
  struct Case {
    const char* name;
    OperandLayouts layouts;
    int64_t rows, columns;
    double bytes;  // read and written for each element by both kernels; the first one reads 2
  };
  constexpr Case kCases[] = {{"both", OperandLayouts::both, 32768, 2048, 6},
                             {"both", OperandLayouts::both, 32768, 8192, 6},
                             {"both", OperandLayouts::both, 8192, 2048, 6},
                             {"rows", OperandLayouts::rows, 32768, 2048, 5},
                             {"columns", OperandLayouts::columns, 32768, 2048, 5}};
  for (const Case& one : kCases) {
    const Tensor x = random_matrix({one.rows, one.columns}, at::kBFloat16), copy = at::empty_like(x);
    const double elements = static_cast<double>(x.numel());
    const auto seconds = [&](const Tensor& amax) {
      return seconds_of([&] { fp8_operand(x, by_row(Element::e4m3), one.layouts, amax); });
    };
    const double rate = elements * one.bytes / seconds({});
    const Tensor amax = fp8_operand(x, by_row(Element::e4m3), one.layouts).amax;
    const double second_read_rate = elements * (one.bytes - 2) / seconds(amax);
    const double tensor_scale_rate = elements * one.bytes / seconds_of([&] {
                                       fp8_operand(x, {Element::e4m3, Scaling::tensor}, one.layouts);
                                     });
    const double copy_rate = elements * 4 / seconds_of([&] { copy.copy_(x); });
    std::printf("%s %ld x %ld: %.0f GB/s, the second kernel %.0f, one scale %.0f, a copy %.0f; %.2f of the copy\n",
                one.name, static_cast<long>(one.rows), static_cast<long>(one.columns), rate / 1e9,
                second_read_rate / 1e9, tensor_scale_rate / 1e9, copy_rate / 1e9, rate / copy_rate);
    EXPECT_GE(rate, 0.7 * copy_rate);
  }
}

}  // namespace
}  // namespace strata::kernels
