// SPDX-License-Identifier: MIT
// What kernels compute for one block and one scale, on the CPU: places in scale tiles against views of LibTorch, and
// scales and quotients against quantize(), for which quantize_test.cc has the proof.
#include "kernels/quantize/block_scales.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "kernels/cuda/scale_tiles.h"
#include "kernels/quantize/element_values.h"
#include "kernels/quantize/fp8_operand.h"
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

unsigned bits_of(float number) { return std::bit_cast<unsigned>(number); }

// The codes and scales of a matrix, block by block.
template <Element kElement>
Quantized by_blocks(const Tensor& x) {
  constexpr int64_t kBlock = block_size(Scaling::mx);
  Tensor quotients = at::empty_like(x);
  const Tensor scales = at::empty({x.size(0), x.size(1) / kBlock}, at::kByte);
  const auto numbers = x.accessor<float, 2>();
  auto quotient = quotients.accessor<float, 2>();
  auto scale = scales.accessor<uint8_t, 2>();
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t first = 0; first < x.size(1); first += kBlock) {
      unsigned amax = 0;
      for (int64_t i = first; i < first + kBlock; ++i) amax = std::max(amax, bits_of(numbers[row][i]) & 0x7fffffffu);
      const unsigned code = e8m0_of<kElement>(amax);
      scale[row][first / kBlock] = static_cast<uint8_t>(code);
      for (int64_t i = first; i < first + kBlock; ++i) {
        quotient[row][i] = numbers[row][i] * std::bit_cast<float>(inverse_of_e8m0(code));
      }
    }
  }
  return {codes_of(rounded_to_element(quotients, kElement), kElement), scales, {}};
}

template <Element kElement>
void expect_those_of_quantize(const Tensor& x) {
  const Quantized wanted = quantize(x, {kElement, Scaling::mx}, Rounding::nearest_even, /*key=*/{});
  const Quantized found = by_blocks<kElement>(x);
  EXPECT_TRUE(found.scales.equal(wanted.scales));
  EXPECT_TRUE(found.codes.equal(wanted.codes));
  EXPECT_GT(wanted.scales.ne(wanted.scales[0][0]).sum().item<int64_t>(), 0);
}

TEST(BlockScales, AreThoseOfQuantize) {
  const Tensor hard = at::cat({finite_rows(), rows_with_lost_numbers()});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor x = hard.to(type).to(at::kFloat);
    expect_those_of_quantize<Element::e4m3>(x);
    expect_those_of_quantize<Element::e5m2>(x);
  }
}

// A traced operand has the sizes that cuBLASLt reads.
TEST(BlockScales, OfAnOperandAreInWholeTiles) {
  const auto operand = [](int64_t rows, int64_t columns) {
    return fp8_operand(at::empty({rows, columns}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16)),
                       {Element::e4m3, Scaling::mx}, OperandLayouts::both);
  };
  const Fp8Operand found = operand(130, 160);
  EXPECT_EQ(found.rows.sizes(), at::IntArrayRef({130, 160}));
  EXPECT_EQ(found.columns.sizes(), at::IntArrayRef({160, 160}));
  EXPECT_EQ(found.rows_scale.sizes(), at::IntArrayRef({2 * 2 * 512}));
  EXPECT_EQ(found.columns_scale.sizes(), at::IntArrayRef({2 * 2 * 512}));
  EXPECT_EQ(found.rows_scale.scalar_type(), at::kFloat8_e8m0fnu);
  EXPECT_FALSE(found.amax.defined());
  EXPECT_EQ(operand(1, 32).columns.sizes(), at::IntArrayRef({32, 32}));
  EXPECT_ANY_THROW(operand(32, 48)) << "48 columns are no whole blocks";
}

}  // namespace
}  // namespace strata::kernels
