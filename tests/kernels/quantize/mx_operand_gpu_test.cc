// SPDX-License-Identifier: MIT
// fp8_operand with scales of blocks gives the bits of quantize() on the CPU, for which quantize_test.cc has the proof,
// and its scales in tiles. The kernel runs on Hopper GPUs too; products of such operands need newer ones. The last case
// prints the rate of the kernel, next to that of a copy.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/fp8_layer_cases.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"

namespace strata::kernels {
namespace {

constexpr int64_t kBlock = block_size(Scaling::mx);

constexpr QuantizedFormat in(Element element) { return {element, Scaling::mx}; }

Quantized quantized(const Tensor& x, Element element) {
  return quantize(x.cpu().contiguous(), in(element), Rounding::nearest_even, /*key=*/{});
}

void expect_layout(const Tensor& codes, const Tensor& scales, const Quantized& wanted, Element element) {
  expect_codes(codes, wanted.codes, element);
  ASSERT_EQ(scales.scalar_type(), at::kFloat8_e8m0fnu);
  const Tensor expected = in_scale_tiles(wanted.scales);
  ASSERT_EQ(scales.sizes(), expected.sizes());
  const Tensor different = scales.view(at::kByte).cpu().ne(expected);
  EXPECT_EQ(different.sum().item<int64_t>(), 0)
      << "of " << expected.numel() << " scales, the first at " << different.to(at::kInt).argmax().item<int64_t>();
}

// `x` is on the GPU, with any strides.
void expect_bits(const Tensor& x, Element element) {
  const Quantized of_rows = quantized(x, element), of_columns = quantized(filled(x.t(), kBlock), element);
  const Fp8Operand both = fp8_operand(x, in(element), OperandLayouts::both);
  expect_layout(both.rows, both.rows_scale, of_rows, element);
  expect_layout(both.columns, both.columns_scale, of_columns, element);
  EXPECT_FALSE(both.amax.defined());
  const Fp8Operand rows = fp8_operand(x, in(element), OperandLayouts::rows);
  EXPECT_FALSE(rows.columns.defined() || rows.columns_scale.defined());
  expect_layout(rows.rows, rows.rows_scale, of_rows, element);
  const Fp8Operand columns = fp8_operand(x, in(element), OperandLayouts::columns);
  EXPECT_FALSE(columns.rows.defined() || columns.rows_scale.defined());
  expect_layout(columns.columns, columns.columns_scale, of_columns, element);
}

TEST(MxOperand, RoundsAllNumbersOf16Bits) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const Element element : kElements) {
      const Tensor all = all_numbers(type).cuda();
      expect_bits(all.view({2048, 32}), element);
      expect_bits(all.view({512, 128}).t().contiguous(), element);
    }
  }
}

TEST(MxOperand, RoundsHardRows) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor all = at::cat({finite_rows(), rows_with_lost_numbers()});
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      expect_bits(all.to(type).cuda(), element);
      expect_bits(filled(all.t(), kBlock).to(type).cuda(), element);
    }
  }
}

TEST(MxOperand, TakesMatricesOfAllSizesAndStrides) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const int64_t rows : {1, 15, 31, 32, 33, 100, 127, 128, 129, 1000}) {
        for (const int64_t columns : {32, 96, 128, 160, 768, 4128}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(columns));
          expect_bits(random_matrix({rows, columns}, type) * at::randn({rows, 1}, x_options(type)).exp(), element);
        }
      }
      const Tensor wide = random_matrix({129, 1024}, type);
      expect_bits(wide.narrow(1, 64, 288), element);  // rows with a distance
      expect_bits(wide.narrow(1, 1, 288), element);   // not at a 16-byte boundary
      expect_bits(wide.narrow(0, 1, 128).t(), element);
      expect_bits(wide.narrow(0, 0, 1).expand({33, 1024}), element);
      expect_bits(at::zeros({0, 64}, x_options(type)), element);
    }
  }
}

// Each number decides about the scale of its block in its row, and of that in its column, and about no other.
TEST(MxOperand, FindsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  const int64_t rows = 160, columns = 160;
  const Tensor x = at::zeros({rows, columns}, x_options(at::kBFloat16));
  for (int64_t place = 0; place < x.numel() && !testing::Test::HasFailure(); place += 7) {
    const int64_t row = place / columns, column = place % columns;
    x[row][column] = 448;  // of scale 1, whose code is 127
    const Fp8Operand found = fp8_operand(x, in(Element::e4m3), OperandLayouts::both);
    const Tensor of_rows = at::zeros({rows, columns / kBlock}, at::kByte), of_columns = at::zeros_like(of_rows);
    of_rows[row][column / kBlock] = of_columns[column][row / kBlock] = 127;
    EXPECT_TRUE(found.rows_scale.view(at::kByte).cpu().equal(in_scale_tiles(of_rows))) << row << ", " << column;
    EXPECT_TRUE(found.columns_scale.view(at::kByte).cpu().equal(in_scale_tiles(of_columns))) << row << ", " << column;
    x[row][column] = 0;
  }
}

TEST(MxOperand, ShowsLostNumbersInTheirBlocksAlone) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const at::ScalarType type : kTypes) {
    for (const Element element : kElements) {
      for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Tensor x = random_matrix({137, 160}, type);
        x.view(-1).narrow(0, 9999, 1).fill_(lost);
        expect_bits(x, element);
        const Fp8Operand found = fp8_operand(x, in(element), OperandLayouts::both);
        EXPECT_EQ(found.rows_scale.view(at::kByte).eq(0xff).sum().item<int64_t>(), 1);
        EXPECT_EQ(found.columns_scale.view(at::kByte).eq(0xff).sum().item<int64_t>(), 1);
      }
      expect_bits(at::zeros({137, 160}, x_options(type)).neg(), element);
    }
  }
}

// On GPUs with products of blocks, the products are those of rounded operands in fp64. On others the layer is emulated,
// at level cuda as at level aten.
TEST(MxLinear, IsMultipliedOrEmulated) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr ProductFormats kMx = {in(Element::e4m3), in(Element::e4m3)};
  for (const LayerSizes& sizes : {LayerSizes{{17}, 64, 96}, LayerSizes{{1000}, 1024, 512}}) {
    ASSERT_TRUE(multiplies_in_blocks(kMx, Level::cuda, sizes.inputs, sizes.outputs));
    at::manual_seed(11);
    const auto made = [](at::IntArrayRef shape) { return at::randn(shape).to(at::kBFloat16).cuda(); };
    const Tensor x = made({sizes.tokens[0], sizes.inputs}).requires_grad_();
    const Tensor weight = made({sizes.outputs, sizes.inputs}).requires_grad_();
    const Tensor grad_y = made({sizes.tokens[0], sizes.outputs});
    const Tensor y = quantized_linear(x, weight, /*bias=*/{}, kMx, Level::cuda);
    y.backward(grad_y);
    const auto along_tokens = [&](const Tensor& matrix) {
      return rounded(filled(matrix.detach().t(), kBlock), kMx.values);
    };
    const auto expect_near = [](const Tensor& actual, const Tensor& expected) {
      const Tensor error = (actual.detach().cpu().to(at::kDouble) - expected).square().sum(-1).sqrt().max();
      EXPECT_LT((error / expected.square().sum(-1).mean().sqrt()).item<double>(), 0x1p-8);
    };
    expect_near(y, at::mm(rounded(x, kMx.values), rounded(weight, kMx.values).t()));
    expect_near(x.grad(), at::mm(rounded(grad_y, kMx.values), rounded(weight.detach().t(), kMx.values).t()));
    expect_near(weight.grad(), at::mm(along_tokens(grad_y), along_tokens(x).t()));
    if (is_on(kBlockScaled, x)) continue;
    const auto in_16_bits = [&](const Tensor& matrix) {
      return rounded_to(matrix, kMx.values, Rounding::nearest_even, {});
    };
    EXPECT_TRUE(
        y.equal(linear(in_16_bits(x.detach()), in_16_bits(weight.detach()), {}, Activation::none, Level::cuda)));
  }
}

TEST(MxOperand, PrintsItsRate) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor x = random_matrix({32768, 2048}, at::kBFloat16), copy = at::empty_like(x);
  const double elements = static_cast<double>(x.numel());
  const double of_copy = elements * 4 / seconds_of([&] { copy.copy_(x); });
  const auto expect_rate = [&](const char* name, OperandLayouts layouts, double bytes) {
    const double rate = elements * bytes / seconds_of([&] { fp8_operand(x, in(Element::e4m3), layouts); });
    std::printf("%s: %.0f GB/s, a copy %.0f; %.2f of the copy\n", name, rate / 1e9, of_copy / 1e9, rate / of_copy);
    EXPECT_GE(rate, 0.5 * of_copy);
  };
  expect_rate("both", OperandLayouts::both, 4 + 2.0 / kBlock);
  expect_rate("rows", OperandLayouts::rows, 3 + 1.0 / kBlock);
  expect_rate("columns", OperandLayouts::columns, 3 + 1.0 / kBlock);
}

}  // namespace
}  // namespace strata::kernels
