// SPDX-License-Identifier: MIT
// Codes of shards on a GPU are those of quantize() on the CPU, and a layer that takes them computes the bits that it
// computes from values. The last case prints rates next to that of a copy.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/fp8_shard.h"
#include "kernels/quantize/largest_magnitudes.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"
#include "tests/kernels/quantize/scale_of_parts.h"

namespace strata::kernels {
namespace {

constexpr QuantizedFormat kFormat = {Element::e4m3, Scaling::tensor};
constexpr ProductFormats kProduct = {kFormat, {Element::e5m2, Scaling::tensor}};

void expect_codes_of_quantize(const Tensor& weight, int64_t parts) {
  const Quantized expected = quantize(weight.cpu(), kFormat, Rounding::nearest_even, /*key=*/{});
  const Tensor flat = weight.view(-1), scale = scale_of_parts(flat.chunk(parts));
  const Tensor codes = at::empty({flat.numel()}, flat.options().dtype(at::kByte));
  write_weight_codes(flat, scale, codes);
  EXPECT_TRUE(codes.cpu().bitwise_and(0x7f).equal(expected.codes.view(-1).bitwise_and(0x7f)));
  // The sign of a NaN says nothing.
  const Tensor is_number = expected.codes.view(-1).bitwise_and(0x7f).ne(0x7f);
  EXPECT_TRUE(codes.cpu().masked_select(is_number).equal(expected.codes.view(-1).masked_select(is_number)));
  expect_number(scale, expected.scales);
}

TEST(Fp8Shard, CodesAreThoseOfTheCpu) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(5);
  const Tensor finite = finite_rows(), all = at::cat({finite, rows_with_lost_numbers()});
  for (const at::ScalarType type : kTypes) {
    SCOPED_TRACE(c10::toString(type));
    for (const int64_t size : {1, 15, 16, 17, 64, 4095, 4096, 4097, 1000003}) {
      expect_codes_of_quantize(at::randn({1, size}).to(type).cuda(), 1);
      expect_codes_of_quantize(at::randn({1, size}).to(type).cuda(), std::min<int64_t>(size, 7));
    }
    expect_codes_of_quantize(finite.to(type).cuda(), 3);
    expect_codes_of_quantize(all.to(type).cuda(), 3);
    for (int64_t row = 0; row < all.size(0); ++row) expect_codes_of_quantize(all.narrow(0, row, 1).to(type).cuda(), 2);
  }
}

// 150 parts of one type take three kernels if they begin at 16-byte boundaries. Others begin one element behind them.
TEST(Fp8Shard, LargestMagnitudesAreThoseOfTheCpu) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(9);
  constexpr int64_t kLengths[] = {1, 7, 8, 9, 16383, 16384, 16385, 40000};
  constexpr double kLost[] = {0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
  for (const at::ScalarType type : kTypes) {
    for (const int64_t offset : {0, 1}) {
      std::vector<Tensor> parts, on_cpu;
      std::vector<int64_t> places;
      for (int64_t i = 0; i < 150; ++i) {
        const int64_t length = kLengths[i % 8];
        const Tensor values = (at::randn({length + offset}) * 0.01).to(type);
        // The largest one is first, last or between, and negative.
        values[offset + (i % 3 == 0 ? 0 : i % 3 == 1 ? length - 1 : length / 2)] = -3.0 - static_cast<double>(i);
        if (i % 20 == 19) values[offset + length / 3] = -kLost[i / 20 % 3];
        on_cpu.push_back(values.narrow(0, offset, length));
        parts.push_back(values.cuda().narrow(0, offset, length));
        places.push_back(160 - i);
      }
      const Tensor expected = at::full({170}, 5.0f), found = expected.cuda();
      find_largest_magnitudes(on_cpu, places, expected);
      find_largest_magnitudes(parts, places, found);
      EXPECT_TRUE(same_bits(found.cpu().nan_to_num(-1.0), expected.nan_to_num(-1.0))) << type << ", " << offset;
      for (size_t i = 0; i < parts.size(); ++i) {
        const float wanted = on_cpu[i].to(at::kFloat).abs().max().item<float>(),
                    number = expected[places[i]].item<float>();
        EXPECT_TRUE(number == wanted || (number != number && wanted != wanted)) << type << ", part " << i;
      }
      EXPECT_EQ(expected[0].item<float>(), 0);
    }
  }
}

// Layers may compute in different types, of which each needs a kernel of its own.
TEST(Fp8Shard, LargestMagnitudesOfPartsOfDifferentTypes) {
  ASSERT_TRUE(at::hasCUDA());
  constexpr int64_t kElements = 20000;
  std::vector<Tensor> parts;
  std::vector<int64_t> places(200);
  std::iota(places.begin(), places.end(), 0);
  for (const int64_t place : places) {
    // 100 parts of one type, and then another type after each.
    const at::ScalarType type = place < 100 ? at::kBFloat16 : kTypes[place % 3];
    parts.push_back(at::full({kElements}, -1.0 - static_cast<double>(place), at::device(at::kCUDA).dtype(type)));
  }
  const Tensor found = at::empty({200}, at::device(at::kCUDA).dtype(at::kFloat));
  find_largest_magnitudes(parts, places, found);
  for (const int64_t place : places) EXPECT_EQ(found[place].item<float>(), 1 + place) << "part " << place;
}

TEST(Fp8Shard, OperandsAreThoseOfValues) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(6);
  for (const int64_t rows : {16, 112, 128, 144, 1024, 4096}) {
    for (const int64_t columns : {16, 48, 128, 144, 768, 8192}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const Tensor weight = at::randn({rows, columns}).to(at::kBFloat16).cuda();
      const Fp8Operand expected = fp8_operand(weight, kFormat, OperandLayouts::both);
      const Tensor scale = scale_of_parts(weight.view(-1).chunk(2)),
                   codes = at::empty({weight.numel()}, weight.options().dtype(at::kByte));
      write_weight_codes(weight.view(-1), scale, codes);
      const WeightCodes gathered = {codes.view({rows, columns}), scale};
      const Fp8Operand found = fp8_operand_of_codes(gathered, OperandLayouts::both);
      EXPECT_TRUE(found.rows.view(at::kByte).equal(expected.rows.view(at::kByte)));
      EXPECT_TRUE(found.columns.view(at::kByte).equal(expected.columns.view(at::kByte)));
      EXPECT_TRUE(found.rows_scale.equal(expected.rows_scale));
      EXPECT_FALSE(fp8_operand_of_codes(gathered, OperandLayouts::columns).rows.defined());
      EXPECT_FALSE(fp8_operand_of_codes(gathered, OperandLayouts::rows).columns.defined());
    }
  }
}

// The values are NaN then, so a product that read them would show. Deterministic, all products take the same algorithm.
TEST(Fp8Shard, ALayerComputesTheSameBits) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(7);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  for (const at::ScalarType type : kTypes) {
    const Tensor x = at::randn({100, 256}).to(type).cuda().requires_grad_(),
                 grad_y = at::randn({100, 512}).to(type).cuda();
    const Tensor weight = at::randn({512, 256}).to(type).cuda().requires_grad_();
    const Tensor y = quantized_linear(x, weight, /*bias=*/{}, kProduct, Level::cuda);
    y.backward(grad_y);
    const Tensor lost = at::full_like(weight.detach(), std::numeric_limits<double>::quiet_NaN()).requires_grad_();
    const Tensor again = x.detach().requires_grad_(), scale = scale_of_parts(weight.detach().view(-1).chunk(2));
    const Tensor codes = at::empty({weight.numel()}, x.options().requires_grad(false).dtype(at::kByte));
    write_weight_codes(weight.detach().view(-1), scale, codes);
    set_weight_codes(lost, {codes.view({512, 256}), scale});
    const Tensor found = quantized_linear(again, lost, /*bias=*/{}, kProduct, Level::cuda);
    found.backward(grad_y);
    clear_weight_codes(lost);
    EXPECT_TRUE(same_bits(found.detach(), y.detach()));
    EXPECT_TRUE(same_bits(again.grad(), x.grad()));
    EXPECT_TRUE(same_bits(lost.grad(), weight.grad()));
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

// Ranks have the scales of all weights in one tensor.
TEST(Fp8Shard, AProductTakesAScaleAtA16ByteBoundary) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(8);
  const at::NoGradGuard no_gradients;
  const Tensor weight = at::randn({512, 256}).to(at::kBFloat16).cuda(), x = at::randn({64, 256}).to(weight);
  const Tensor scale = scale_of_parts(weight.view(-1).chunk(2)),
               codes = at::empty({weight.numel()}, x.options().dtype(at::kByte));
  write_weight_codes(weight.view(-1), scale, codes);
  const auto product = [&](int64_t place) {
    const Tensor among_others = at::zeros({8}, scale.options());
    among_others.narrow(0, place, 1).copy_(scale);
    set_weight_codes(weight, {codes.view({512, 256}), among_others.narrow(0, place, 1)});
    return quantized_linear(x, weight, /*bias=*/{}, kProduct, Level::cuda);
  };
  EXPECT_TRUE(same_bits(product(4), product(0)));
  EXPECT_THROW(product(5), c10::ValueError);
  EXPECT_THROW(product(6), c10::ValueError);
  clear_weight_codes(weight);
}

TEST(Fp8Shard, RatesAreNearThatOfACopy) {
  ASSERT_TRUE(at::hasCUDA());
  const int64_t rows = 28672, columns = 4096;
  const Tensor weight = at::randn({rows, columns}, at::device(at::kCUDA).dtype(at::kBFloat16));
  const Tensor copy = at::empty_like(weight), codes = at::empty({weight.numel()}, weight.options().dtype(at::kByte));
  const Tensor scale = scale_of_parts(weight.view(-1).chunk(2));
  const auto elements = static_cast<double>(weight.numel());
  const double copy_rate = elements * 4 / seconds_of([&] { copy.copy_(weight); });
  const WeightCodes gathered = {codes.view({rows, columns}), scale};
  const auto expect_rate = [&](const char* name, double bytes, double least, const std::function<void()>& run) {
    const double rate = elements * bytes / seconds_of(run);
    std::printf("%s: %.0f GB/s, a copy %.0f GB/s, %.2f of it\n", name, rate / 1e9, copy_rate / 1e9, rate / copy_rate);
    EXPECT_GE(rate, least * copy_rate) << name;
  };
  expect_rate("codes of a shard", 3, 0.7, [&] { write_weight_codes(weight.view(-1), scale, codes); });
  expect_rate("transpose of codes", 2, 0.5, [&] { fp8_operand_of_codes(gathered, OperandLayouts::columns); });
  expect_rate("largest magnitudes", 2, 0.7, [&] { largest_of_parts(weight.view(-1).chunk(2)); });
}

}  // namespace
}  // namespace strata::kernels
