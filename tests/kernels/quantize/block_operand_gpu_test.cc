// SPDX-License-Identifier: MIT
// block_operand gives the bits of quantize() on the CPU, for which quantize_test.cc has the proof, and its scales in
// tiles. The kernels run on Hopper GPUs too; products of such operands need newer ones. The last case prints rates of
// the kernels, next to that of a copy.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <string>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/block_operand.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/fp8_layer_cases.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"

namespace strata::kernels {
namespace {

constexpr QuantizedFormat kMx = {Element::e4m3, Scaling::mx}, kNv = {Element::e2m1, Scaling::nv};
constexpr QuantizedFormat kFormats[] = {kMx, {Element::e5m2, Scaling::mx}, kNv};

// Zeros fill the rows of `x`, and the codes of these are 0 also where the scale is NaN.
void expect_layout(const Tensor& codes, const Tensor& scales, const Tensor& x, QuantizedFormat format) {
  const Tensor whole = filled(x.cpu(), kBlockOperandUnit);
  const Quantized wanted = quantize(whole, format, Rounding::nearest_even, /*key=*/{});
  wanted.codes.slice(1, x.size(1)).zero_();
  const bool is_nv = format.scaling == Scaling::nv;
  const auto expect_bytes = [](const char* what, const Tensor& found, const Tensor& expected) {
    ASSERT_EQ(found.sizes(), expected.sizes()) << what;
    const Tensor different = found.view(at::kByte).cpu().ne(expected);
    EXPECT_EQ(different.sum().item<int64_t>(), 0)
        << "of " << expected.numel() << " bytes of " << what << ", the first at "
        << different.to(at::kInt).argmax().item<int64_t>();
  };
  EXPECT_EQ(codes.scalar_type(), is_nv                             ? at::kFloat4_e2m1fn_x2
                                 : format.element == Element::e4m3 ? at::kFloat8_e4m3fn
                                                                   : at::kFloat8_e5m2);
  EXPECT_EQ(scales.scalar_type(), is_nv ? at::kFloat8_e4m3fn : at::kFloat8_e8m0fnu);
  expect_bytes("codes", codes, is_nv ? packed(wanted.codes) : wanted.codes);
  expect_bytes("scales", scales, in_scale_tiles(wanted.scales));
}

// `x` is on the GPU, with any strides.
void expect_bits(const Tensor& x, QuantizedFormat format) {
  const Fp8Operand both = block_operand(x, format, OperandLayouts::both);
  expect_layout(both.rows, both.rows_scale, x, format);
  expect_layout(both.columns, both.columns_scale, x.t(), format);
  const bool is_nv = format.scaling == Scaling::nv;
  EXPECT_EQ(both.tensor_scale.defined(), is_nv);
  if (is_nv) {
    const Quantized wanted = quantize(x.cpu(), format, Rounding::nearest_even, /*key=*/{});
    expect_number(both.tensor_scale, wanted.tensor_scale);
  }
  // With the magnitudes of the first operand, as that of a weight in the backward.
  const Fp8Operand row_operand = block_operand(x, format, OperandLayouts::rows, both.amax);
  EXPECT_FALSE(row_operand.columns.defined() || row_operand.columns_scale.defined());
  expect_layout(row_operand.rows, row_operand.rows_scale, x, format);
  const Fp8Operand column_operand = block_operand(x, format, OperandLayouts::columns);
  EXPECT_FALSE(column_operand.rows.defined() || column_operand.rows_scale.defined());
  expect_layout(column_operand.columns, column_operand.columns_scale, x.t(), format);
}

TEST(BlockOperand, RoundsAllNumbersOf16Bits) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor all = all_numbers(type), infinity = all.view(at::kShort).bitwise_and(0x7fff);
    // Without infinities and NaN, with which all numbers of NVFP4 are lost.
    const Tensor finite =
        at::where(infinity.lt(type == at::kHalf ? 0x7c00 : 0x7f80), all.view(at::kShort), 0).view(type);
    for (const QuantizedFormat format : kFormats) {
      for (const Tensor& x : {all.cuda(), finite.cuda(), finite.cuda() * 0x1p-12}) {
        expect_bits(x.view({2048, 32}), format);
        expect_bits(x.view({512, 128}).t().contiguous(), format);
      }
    }
  }
}

TEST(BlockOperand, RoundsHardRows) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor finite = finite_rows(), all = at::cat({finite, rows_with_lost_numbers()});
  for (const at::ScalarType type : kTypes) {
    for (const QuantizedFormat format : kFormats) {
      expect_bits(finite.to(type).cuda(), format);
      expect_bits(all.to(type).cuda(), format);
      expect_bits(filled(all.t(), kBlockOperandUnit).to(type).cuda(), format);
      // Each row has another scale of the tensor with NVFP4.
      for (int64_t row = 0; row < all.size(0); row += 7) expect_bits(all.narrow(0, row, 1).to(type).cuda(), format);
    }
  }
}

TEST(BlockOperand, TakesMatricesOfAllSizesAndStrides) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    for (const QuantizedFormat format : kFormats) {
      for (const int64_t rows : {1, 15, 16, 31, 32, 33, 100, 127, 128, 129, 1000}) {
        for (const int64_t columns : {32, 64, 96, 128, 160, 768, 4128}) {
          SCOPED_TRACE(std::string(name(format)) + " " + c10::toString(type) + " " + std::to_string(rows) + " x " +
                       std::to_string(columns));
          expect_bits(random_matrix({rows, columns}, type) * at::randn({rows, 1}, x_options(type)).exp(), format);
        }
      }
      const Tensor wide = random_matrix({129, 1024}, type);
      expect_bits(wide.narrow(1, 64, 288), format);  // rows with a distance
      expect_bits(wide.narrow(1, 1, 288), format);   // not at a 16-byte boundary
      expect_bits(wide.narrow(0, 1, 128).t(), format);
      expect_bits(wide.narrow(0, 0, 1).expand({33, 1024}), format);
      expect_bits(at::zeros({0, 64}, x_options(type)), format);
    }
  }
}

// Each number decides about the scale of its block in its row, and of that in its column, and about no other.
TEST(BlockOperand, FindsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor x = at::zeros({160, 160}, x_options(at::kBFloat16));
  for (const QuantizedFormat format : {kMx, kNv}) {
    const bool is_nv = format.scaling == Scaling::nv;
    const int64_t block = block_size(format.scaling);
    // With MXFP8 it makes the scale 1 instead of 2^-127. With NVFP4 it makes that of the tensor 1, and its own 448
    // instead of 2^-9.
    const int64_t number = is_nv ? 448 * 6 : 448, its_code = is_nv ? 0x7e : 127, code_of_zeros = is_nv ? 1 : 0;
    for (int64_t place = 0; place < x.numel() && !testing::Test::HasFailure(); place += 7) {
      const int64_t row = place / 160, column = place % 160;
      SCOPED_TRACE(std::string(name(format)) + " at " + std::to_string(row) + ", " + std::to_string(column));
      x[row][column] = number;
      const Fp8Operand found = block_operand(x, format, OperandLayouts::both);
      const auto expect_scale = [&](const Tensor& scales, int64_t line, int64_t along) {
        const Tensor expected = at::full({160, 160 / block}, code_of_zeros, at::kByte);
        expected[line][along / block] = its_code;
        EXPECT_TRUE(scales.view(at::kByte).cpu().equal(in_scale_tiles(expected)));
      };
      expect_scale(found.rows_scale, row, column);
      expect_scale(found.columns_scale, column, row);
      x[row][column] = 0;
    }
  }
}

TEST(BlockOperand, ShowsLostNumbers) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const at::ScalarType type : kTypes) {
    for (const QuantizedFormat format : kFormats) {
      for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Tensor x = random_matrix({137, 160}, type);
        x.view(-1).narrow(0, 9999, 1).fill_(lost);
        expect_bits(x, format);
        if (format.scaling == Scaling::nv) continue;  // all are lost
        const Fp8Operand found = block_operand(x, format, OperandLayouts::both);
        EXPECT_EQ(found.rows_scale.view(at::kByte).eq(0xff).sum().item<int64_t>(), 1);
        EXPECT_EQ(found.columns_scale.view(at::kByte).eq(0xff).sum().item<int64_t>(), 1);
      }
      expect_bits(at::zeros({137, 160}, x_options(type)).neg(), format);
    }
  }
}

// On GPUs with products of blocks, the products are those of rounded operands in fp64. On others the layer is emulated.
TEST(BlockLinear, IsMultipliedOrEmulated) {
  ASSERT_TRUE(at::hasCUDA());
  for (const QuantizedFormat format : {kMx, kNv}) {
    const ProductFormats formats = {format, format};
    for (const LayerSizes& sizes : {LayerSizes{{17}, 64, 96}, LayerSizes{{1000}, 1024, 512}}) {
      SCOPED_TRACE(std::string(name(format)) + ", tokens " + std::to_string(sizes.tokens[0]));
      ASSERT_TRUE(multiplies_in_blocks(formats, Level::cuda, sizes.inputs, sizes.outputs));
      at::manual_seed(11);
      const auto made = [](at::IntArrayRef shape) { return at::randn(shape).to(at::kBFloat16).cuda(); };
      const Tensor x = made({sizes.tokens[0], sizes.inputs}).requires_grad_();
      const Tensor weight = made({sizes.outputs, sizes.inputs}).requires_grad_();
      const Tensor bias = made({sizes.outputs}), grad_y = made({sizes.tokens[0], sizes.outputs});
      const Tensor y = quantized_linear(x, weight, bias, formats, Level::cuda);
      y.backward(grad_y);
      const auto along_tokens = [&](const Tensor& matrix) {
        return rounded(filled(matrix.detach().t(), kBlockOperandUnit), format);
      };
      const auto expect_near = [](const Tensor& actual, const Tensor& expected) {
        const Tensor error = (actual.detach().cpu().to(at::kDouble) - expected).square().sum(-1).sqrt().max();
        EXPECT_LT((error / expected.square().sum(-1).mean().sqrt()).item<double>(), 0x1p-7);
      };
      expect_near(y, at::mm(rounded(x, format), rounded(weight, format).t()) + bias.cpu().to(at::kDouble));
      expect_near(x.grad(), at::mm(rounded(grad_y, format), rounded(weight.detach().t(), format).t()));
      expect_near(weight.grad(), at::mm(along_tokens(grad_y), along_tokens(x).t()));
      if (is_on(kBlockScaled, x)) continue;
      const auto emulated = [&](const Tensor& matrix) {
        return rounded_to(matrix.detach(), format, Rounding::nearest_even, /*key=*/{});
      };
      EXPECT_TRUE(y.equal(linear(emulated(x), emulated(weight), bias, Activation::none, Level::cuda)));
    }
  }
}

TEST(BlockOperand, PrintsItsRates) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor x = random_matrix({32768, 2048}, at::kBFloat16), copy = at::empty_like(x);
  const double elements = static_cast<double>(x.numel());
  const double copy_rate = elements * 4 / seconds_of([&] { copy.copy_(x); });
  // Bytes read and written for each element; a layout has a code and a part of a scale.
  const auto expect_rate = [&](QuantizedFormat format, const char* layout, OperandLayouts layouts, double bytes,
                               double least) {
    const double rate = elements * bytes / seconds_of([&] { block_operand(x, format, layouts); });
    std::printf("%s, %s: %.0f GB/s, a copy %.0f; %.2f of the copy\n", std::string(name(format)).c_str(), layout,
                rate / 1e9, copy_rate / 1e9, rate / copy_rate);
    EXPECT_GE(rate, least * copy_rate);
  };
  constexpr double kOfMx = 1 + 1.0 / 32, kOfNv = 0.5 + 1.0 / 16;
  expect_rate(kMx, "both", OperandLayouts::both, 2 + 2 * kOfMx, 0.4);
  expect_rate(kMx, "rows", OperandLayouts::rows, 2 + kOfMx, 0.4);
  expect_rate(kNv, "both", OperandLayouts::both, 4 + 2 * kOfNv, 0.3);  // divides each number twice
  expect_rate(kNv, "rows", OperandLayouts::rows, 4 + kOfNv, 0.4);
}

}  // namespace
}  // namespace strata::kernels
