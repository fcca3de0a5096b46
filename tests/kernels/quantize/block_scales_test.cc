// SPDX-License-Identifier: MIT
// What kernels compute for one block, one scale and one code, on the CPU: places in scale tiles against views of
// LibTorch, and scales and codes against quantize(), for which quantize_test.cc has the proof.
#include "kernels/quantize/block_scales.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "kernels/cuda/scale_tiles.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/quantize/block_operand.h"
#include "kernels/quantize/element_values.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"

namespace strata::kernels {
namespace {

// As a kernel would store them.
Tensor placed(const Tensor& scales) {
  const int64_t rows = scales.size(0), blocks = scales.size(1);
  const Tensor tiles = at::zeros({scale_tile_bytes(rows, blocks)}, at::kByte);
  const auto from = scales.accessor<uint8_t, 2>();
  auto to = tiles.accessor<uint8_t, 1>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t block = 0; block < blocks; ++block) {
      uint8_t& place = to[scale_place(row, block, blocks)];
      EXPECT_EQ(place, 0) << "two scales have one place";
      place = from[row][block];
    }
  }
  return tiles;
}

TEST(ScaleTiles, HaveTheLayoutOfCublas) {
  for (const int64_t rows : {1, 31, 32, 33, 100, 127, 128, 129, 300}) {
    for (const int64_t blocks : {1, 2, 3, 4, 5, 7, 8, 13}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(blocks) + " blocks");
      const Tensor scales = at::randint(1, 256, {rows, blocks}, at::kByte);
      const Tensor expected = in_scale_tiles(scales);
      EXPECT_EQ(expected.numel() % 512, 0);
      EXPECT_TRUE(placed(scales).equal(expected));
      EXPECT_EQ(expected.narrow(0, 0, scales.numel()).equal(scales.view({-1})), rows == 1 && blocks <= 4);
    }
  }
}

// Numbers of the picture in cuBLAS's documentation.
TEST(ScaleTiles, HaveThesePlaces) {
  EXPECT_EQ(scale_place(0, 3, 4), 3);
  EXPECT_EQ(scale_place(1, 0, 4), 16);
  EXPECT_EQ(scale_place(31, 0, 4), 31 * 16);
  EXPECT_EQ(scale_place(32, 0, 4), 4);
  EXPECT_EQ(scale_place(127, 3, 4), 511);
  EXPECT_EQ(scale_place(33, 6, 7), 512 + 16 + 4 + 2);
  EXPECT_EQ(scale_place(128, 0, 7), 1024);
  EXPECT_EQ(scale_place(int64_t{1} << 31, 0, 4), int64_t{1} << 33);
  EXPECT_EQ(scale_tile_bytes(129, 5), 4 * 512);
  EXPECT_EQ(scale_tile_bytes(0, 5), 0);
}

// block_value(fp32 bits of the largest magnitude) of each block of a matrix.
template <class Value>
Tensor mapped_blocks(const Tensor& x, int64_t size, const std::function<Value(unsigned)>& block_value) {
  const Tensor result = at::empty({x.size(0), x.size(1) / size}, c10::CppTypeToScalarType<Value>::value);
  const auto numbers = x.accessor<float, 2>();
  auto values = result.accessor<Value, 2>();
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t block = 0; block < result.size(1); ++block) {
      unsigned amax = 0;
      for (int64_t i = block * size; i < (block + 1) * size; ++i) {
        amax = std::max(amax, bits_of_float(numbers[row][i]) & 0x7fffffffu);
      }
      values[row][block] = block_value(amax);
    }
  }
  return result;
}

template <class From, class To>
Tensor mapped(const Tensor& x, const std::function<To(From)>& value_of) {
  const Tensor from = x.contiguous(), result = at::empty(x.sizes(), c10::CppTypeToScalarType<To>::value);
  const From* const numbers = from.const_data_ptr<From>();
  std::transform(numbers, numbers + from.numel(), result.mutable_data_ptr<To>(), value_of);
  return result;
}

// [rows, width] in blocks, which a factor of each block multiplies or divides.
Tensor in_blocks(const Tensor& x, int64_t size) { return x.view({x.size(0), -1, size}); }

template <Element kElement>
void expect_mx(const Tensor& x) {
  constexpr int64_t kBlock = block_size(Scaling::mx);
  const Quantized wanted = quantize(x, {kElement, Scaling::mx}, Rounding::nearest_even, /*key=*/{});
  const Tensor scales =
      mapped_blocks<uint8_t>(x, kBlock, [](unsigned amax) { return static_cast<uint8_t>(e8m0_of<kElement>(amax)); });
  EXPECT_TRUE(scales.equal(wanted.scales));
  const Tensor inverses = mapped<uint8_t, float>(scales, inverse_of_e8m0);
  const Tensor quotients = (in_blocks(x, kBlock) * inverses.unsqueeze(-1)).view_as(x);
  EXPECT_TRUE(codes_of(rounded_to_element(quotients, kElement), kElement).equal(wanted.codes));
}

Tensor e2m1_codes(const Tensor& x) {
  return mapped<float, uint8_t>(x, [](float number) { return static_cast<uint8_t>(e2m1_of(number)); });
}

// Returns how many scales are neither the smallest one nor NaN.
int64_t expect_nv(const Tensor& x) {
  constexpr int64_t kBlock = block_size(Scaling::nv);
  const Quantized wanted = quantize(x, {Element::e2m1, Scaling::nv}, Rounding::nearest_even, /*key=*/{});
  const float tensor_scale = wanted.tensor_scale.item<float>();
  const Tensor exact = mapped_blocks<float>(x, kBlock, [&](unsigned amax) { return nv_scale_of(amax, tensor_scale); });
  const Tensor scales = codes_of(rounded_to_element(exact, Element::e4m3), Element::e4m3);
  EXPECT_TRUE(scales.equal(wanted.scales));
  const Tensor each = mapped<uint8_t, float>(scales, [&](uint8_t code) { return value_of_e4m3(code) * tensor_scale; });
  EXPECT_TRUE(e2m1_codes((in_blocks(x, kBlock) / each.unsqueeze(-1)).view_as(x)).equal(wanted.codes));
  return scales.ne(1).logical_and(scales.ne(0x7f)).sum().item<int64_t>();
}

TEST(BlockScales, AreThoseOfQuantize) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor x = at::cat({finite_rows(), rows_with_lost_numbers()}).to(type).to(at::kFloat);
    expect_mx<Element::e4m3>(x);
    expect_mx<Element::e5m2>(x);
    expect_nv(x);
    // Large rows decide about the scale of the tensor, so others come without them too.
    int64_t counted = 0;
    for (int64_t row = 0; row + 3 <= x.size(0); row += 3) counted += expect_nv(x.narrow(0, row, 3));
    EXPECT_GT(counted, 2000);  // 2000 of 14,000; fp16 makes infinities and zeros of many rows
  }
}

TEST(BlockScales, CodesOf4BitsAreThoseOfTheElement) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor all = all_numbers(type).to(at::kFloat);  // infinities and NaN too
    const Tensor near = (all.view(at::kInt) + 1).view(at::kFloat);
    for (const Tensor& x : {all, near}) {
      EXPECT_TRUE(e2m1_codes(x).equal(codes_of(rounded_to_element(x, Element::e2m1), Element::e2m1)));
    }
  }
  const Tensor codes = at::arange(0x7f, at::kByte), values = values_of(codes, Element::e4m3);
  for (int64_t code = 0; code < 0x7f; ++code) {
    EXPECT_EQ(value_of_e4m3(static_cast<unsigned>(code)), values[code].item<float>()) << code;
  }
  EXPECT_TRUE(std::isnan(value_of_e4m3(0x7f)));
}

TEST(BlockScales, PackTheFirstOfTwoCodesIntoLowBits) {
  EXPECT_EQ(packed_codes(0x04030201, 0x08070605), 0x87654321u);
  const Tensor codes = at::randint(0, 16, {100, 8}, at::kByte), expected = packed(codes).contiguous();
  const Tensor words = codes.view(at::kInt), in_words = expected.view(at::kInt);
  for (int64_t i = 0; i < 100; ++i) {
    const auto word = [&](int64_t k) { return static_cast<unsigned>(words[i][k].item<int>()); };
    EXPECT_EQ(packed_codes(word(0), word(1)), static_cast<unsigned>(in_words[i][0].item<int>()));
  }
}

// Traced operands have the sizes that cuBLASLt reads.
TEST(BlockScales, OfAnOperandAreInWholeTiles) {
  const auto operand = [](int64_t rows, int64_t columns, QuantizedFormat format) {
    const Tensor x = at::empty({rows, columns}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16));
    return block_operand(x, format, OperandLayouts::both);
  };
  constexpr QuantizedFormat kMx = {Element::e4m3, Scaling::mx}, kNv = {Element::e2m1, Scaling::nv};
  const Fp8Operand mx = operand(130, 160, kMx), nv = operand(130, 160, kNv);
  EXPECT_EQ(mx.rows.sizes(), at::IntArrayRef({130, 160}));
  EXPECT_EQ(nv.rows.sizes(), at::IntArrayRef({130, 80}));
  EXPECT_EQ(mx.columns.sizes(), at::IntArrayRef({160, 160}));
  EXPECT_EQ(nv.columns.sizes(), at::IntArrayRef({160, 80}));
  for (const Tensor& scales : {mx.rows_scale, mx.columns_scale}) {
    EXPECT_EQ(scales.scalar_type(), at::kFloat8_e8m0fnu);
    EXPECT_EQ(scales.sizes(), at::IntArrayRef({2 * 2 * 512}));  // 5 blocks
  }
  for (const Tensor& scales : {nv.rows_scale, nv.columns_scale}) {
    EXPECT_EQ(scales.scalar_type(), at::kFloat8_e4m3fn);
    EXPECT_EQ(scales.sizes(), at::IntArrayRef({2 * 3 * 512}));  // 10 blocks
  }
  EXPECT_FALSE(mx.amax.defined() || mx.tensor_scale.defined());
  EXPECT_TRUE(nv.amax.defined() && nv.tensor_scale.defined());
  EXPECT_EQ(operand(1, 32, kMx).columns.sizes(), at::IntArrayRef({32, 32}));
  EXPECT_ANY_THROW(operand(32, 48, kMx)) << "48 columns are no whole blocks";
  EXPECT_ANY_THROW(operand(32, 48, kNv)) << "a row of codes has 24 bytes";
  EXPECT_ANY_THROW(operand(32, 64, {Element::e2m1, Scaling::mx}));
}

TEST(BlockProducts, AreOfTwoFormatsAndOfWholeRows) {
  const auto multiplies = [](Element element, Scaling scaling, Level level, int64_t inputs, int64_t outputs) {
    return multiplies_in_blocks({{element, scaling}, {element, scaling}}, level, inputs, outputs);
  };
  EXPECT_TRUE(multiplies(Element::e4m3, Scaling::mx, Level::cuda, 32, 64));
  EXPECT_TRUE(multiplies(Element::e2m1, Scaling::nv, Level::cuda, 32, 64));
  EXPECT_FALSE(multiplies(Element::e2m1, Scaling::nv, Level::cuda, 48, 64));
  EXPECT_FALSE(multiplies(Element::e2m1, Scaling::nv, Level::cuda, 64, 48));
  EXPECT_FALSE(multiplies(Element::e4m3, Scaling::mx, Level::triton, 32, 64));
  EXPECT_FALSE(multiplies(Element::e2m1, Scaling::mx, Level::cuda, 32, 64));
  EXPECT_FALSE(multiplies(Element::e4m3, Scaling::tensor, Level::cuda, 32, 64));
  EXPECT_FALSE(kBlockScaled.has(90));
  EXPECT_TRUE(kBlockScaled.has(100) && kBlockScaled.has(120));
}

}  // namespace
}  // namespace strata::kernels
