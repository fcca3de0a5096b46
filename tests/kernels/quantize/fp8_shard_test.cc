// SPDX-License-Identifier: MIT
// Codes that shards of a weight make are those of quantize() of the whole weight, and products take them for its
// values.
#include "kernels/quantize/fp8_shard.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/largest_magnitudes.h"
#include "kernels/quantize/quantize.h"
#include "kernels/runtime/gradient_destination.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/operand_checks.h"
#include "tests/kernels/quantize/scale_of_parts.h"

namespace strata::kernels {
namespace {

constexpr QuantizedFormat kFormat = {Element::e4m3, Scaling::tensor};
constexpr ProductFormats kProduct = {kFormat, {Element::e5m2, Scaling::tensor}};

Quantized whole(const Tensor& weight) { return quantize(weight, kFormat, Rounding::nearest_even, /*key=*/{}); }

// As ranks do it: the scale of all parts, and the codes of one part after another.
WeightCodes from_parts(const Tensor& weight, int64_t size) {
  const Tensor flat = weight.detach().view(-1), codes = at::empty({flat.numel()}, flat.options().dtype(at::kByte));
  const Tensor scale = scale_of_parts(flat.split(size));
  for (int64_t begin = 0; begin < flat.numel(); begin += size) {
    const int64_t count = std::min(size, flat.numel() - begin);
    write_weight_codes(flat.narrow(0, begin, count), scale, codes.narrow(0, begin, count));
  }
  return {codes.view(weight.sizes()), scale};
}

void expect_codes_of_quantize(const Tensor& weight, int64_t size) {
  const Quantized expected = whole(weight);
  const WeightCodes found = from_parts(weight, size);
  EXPECT_TRUE(found.codes.equal(expected.codes)) << weight.sizes() << ", parts of " << size;
  expect_number(found.scale, expected.scales);
}

TEST(Fp8Shard, PartsHaveTheCodesOfTheWhole) {
  at::manual_seed(5);
  const Tensor finite = finite_rows(), all = at::cat({finite, rows_with_lost_numbers()});
  for (const at::ScalarType type : kTypes) {
    SCOPED_TRACE(c10::toString(type));
    for (const int64_t size : {64, 1000, 1 << 20}) expect_codes_of_quantize(at::randn({96, 800}).to(type), size);
    for (int64_t row = 0; row < all.size(0); ++row) expect_codes_of_quantize(all.narrow(0, row, 1).to(type), 64);
    expect_codes_of_quantize(finite.to(type), 640);
    expect_codes_of_quantize(all.to(type), 640);
  }
}

// A part that has not the largest number of the weight would give another scale.
TEST(Fp8Shard, TheScaleOfOnePartIsNotThatOfTheWhole) {
  at::manual_seed(6);
  const Tensor weight = at::randn({64, 64});
  const Tensor half = weight.view(-1).narrow(0, 0, 2048).abs().amax().view({1}),
               other = weight.view(-1).narrow(0, 2048, 2048).abs().amax().view({1});
  ASSERT_FALSE(half.equal(other));
  const Tensor smaller = half.lt(other).item<bool>() ? half : other, codes = at::empty({4096}, at::kByte);
  write_weight_codes(weight.view(-1), scales_of_weights(smaller), codes);
  EXPECT_FALSE(codes.view({64, 64}).equal(whole(weight).codes));
}

// The values are NaN then, so a product that read them would show.
TEST(Fp8Shard, ProductsTakeCodesForValues) {
  at::manual_seed(7);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = at::randn({37, 48}).to(type).requires_grad_(), grad_y = at::randn({37, 80}).to(type);
    const Tensor weight = at::randn({80, 48}).to(type).requires_grad_();
    const Tensor y = quantized_linear(x, weight, /*bias=*/{}, kProduct, Level::aten);
    y.backward(grad_y);
    const Tensor lost = at::full_like(weight.detach(), std::numeric_limits<double>::quiet_NaN()).requires_grad_();
    const Tensor again = x.detach().requires_grad_();
    set_weight_codes(lost, from_parts(weight, 1000));
    const Tensor into = at::zeros({80, 48}, type);
    set_gradient_destination(lost, [&] { return GradientDestination{into, false}; });  // beside the codes
    const Tensor found = quantized_linear(again, lost, /*bias=*/{}, kProduct, Level::aten);
    found.backward(grad_y);
    EXPECT_TRUE(found.equal(y));
    EXPECT_TRUE(again.grad().equal(x.grad()));
    EXPECT_TRUE(into.equal(weight.grad()));
    clear_gradient_destination(lost);
    EXPECT_TRUE(weight_codes(lost).codes.defined());
    clear_weight_codes(lost);
    EXPECT_TRUE(quantized_linear(again, lost, /*bias=*/{}, kProduct, Level::aten).isnan().all().item<bool>());
  }
}

TEST(Fp8Shard, PlacesWithoutAPartHaveNoMagnitude) {
  const Tensor largest = at::full({4}, 5.0f), parts = at::ones({2, 3}).mul_(-2);
  find_largest_magnitudes({parts[0], parts[1].narrow(0, 0, 1) * 3}, {3, 1}, largest);
  EXPECT_TRUE(largest.equal(at::tensor({0.0f, 6.0f, 0.0f, 2.0f})));
  find_largest_magnitudes({parts[0].to(at::kHalf), parts[1].to(at::kBFloat16) * 3}, {0, 2}, largest);
  EXPECT_TRUE(largest.equal(at::tensor({2.0f, 0.0f, 6.0f, 0.0f})));
  find_largest_magnitudes({}, {}, largest);
  EXPECT_TRUE(largest.equal(at::zeros({4})));
  EXPECT_THROW(find_largest_magnitudes({parts[0]}, {}, largest), c10::ValueError);
  EXPECT_THROW(find_largest_magnitudes({parts[0]}, {0}, largest.to(at::kDouble)), c10::ValueError);
}

TEST(Fp8Shard, RefusesWhatDoesNotMatch) {
  const Tensor x = at::zeros({64}), scale = at::zeros({1}), codes = at::zeros({64}, at::kByte);
  const auto refused = [](const Tensor& values, const Tensor& factor, const Tensor& into, const std::string& part) {
    try {
      write_weight_codes(values, factor, into);
      ADD_FAILURE() << "expected: " << part;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos) << error.what();
    }
  };
  refused(x.view({8, 8}), scale, codes, "x is Float [8, 8]");
  refused(x.to(at::kDouble), scale, codes, "x is Double [64]");
  refused(x, at::zeros({2}), codes, "scale is Float [2]");
  refused(x, scale, codes.narrow(0, 0, 63), "codes are Byte [63]");
  refused(x, scale, x, "codes are Float [64]");
  EXPECT_THROW(fp8_operand_of_codes({codes.view({8, 8}), scale}, OperandLayouts::rows), c10::ValueError);
}

}  // namespace
}  // namespace strata::kernels
