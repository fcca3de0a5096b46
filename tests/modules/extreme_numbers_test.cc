// SPDX-License-Identifier: MIT
// Linear layers in number formats with the largest and smallest numbers of float32, infinities, NaN and zeros in one
// operand: what is NaN and what is finite, forward and backward, as docs/formats.md says.
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/quantize.h"
#include "tests/modules/linear_case.h"

namespace strata::modules {
namespace {

using kernels::DelayedScales;
using kernels::Element;
using kernels::Level;
using kernels::ProductFormats;
using kernels::QuantizedFormat;
using kernels::Scaling;

constexpr int64_t kTokens = 128, kInputs = 128, kOutputs = 128;  // whole blocks of all formats
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();

struct Format {
  std::string name;
  ProductFormats formats;
  // True if a number that is not finite makes a whole product NaN. Otherwise it makes one row or column of the product
  // NaN: its scale belongs to a row or a block, or, with delayed scales, the number alone becomes NaN.
  bool loses_tensor;
  // What 3e38 becomes, and what 1e-40 becomes in inputs and in gradients, if all numbers of the scale are as large.
  double large, small, small_gradient;
  bool delayed = false;
};

const std::vector<Format> kFormats = {
    {"fp8 current", {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}}, true, 3e38, 0, 0x1p-133},
    {"fp8 row", {{Element::e4m3, Scaling::row}, {Element::e5m2, Scaling::row}}, false, 3e38, 0, 0x1p-133},
    {"fp8 block", {{Element::e4m3, Scaling::block}, {Element::e5m2, Scaling::block}}, false, 3e38, 0, 0x1p-133},
    {"fp8 delayed", {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}}, false, 4, 0, 0, true},
    {"mxfp8",
     {{Element::e4m3, Scaling::mx}, {Element::e4m3, Scaling::mx}},
     false,
     448 * 0x1p119,
     9 * 0x1p-136,
     9 * 0x1p-136},
    {"mxfp6", {{Element::e3m2, Scaling::mx}, {Element::e3m2, Scaling::mx}}, false, 28 * 0x1p123, 0, 0},
    {"mxfp4", {{Element::e2m1, Scaling::mx}, {Element::e2m1, Scaling::mx}}, false, 6 * 0x1p125, 0, 0},
    {"nvfp4", {{Element::e2m1, Scaling::nv}, {Element::e2m1, Scaling::nv}}, true, 3e38, 0, 0},
};

enum Operand { kX, kWeight, kGradient };

// The largest number in the history of a delayed scale is 4.
DelayedScales scales_of(const Format& format) {
  const auto one = [](double number) { return at::full({1}, number, at::kFloat); };
  if (!format.delayed) return {};
  return {{one(4), one(0)}, {one(4), one(0)}, {one(4), one(0)}};
}

// Operands of a layer, of about 2^-13 so that products with 3e38 do not overflow, and what its passes give.
struct Layer {
  explicit Layer(at::ScalarType type)
      : given(type, {kTokens}, kInputs, kOutputs, [](at::IntArrayRef sizes) { return at::randn(sizes) * 0x1p-13; }) {}

  Tensor operand(Operand which) const {
    return (which == kX ? given.x : which == kWeight ? given.weight : given.grad_y).detach();
  }
  void run(const Format& format) {
    y = kernels::quantized_linear(given.x, given.weight, given.bias, format.formats, Level::aten, scales_of(format));
    y.backward(given.grad_y);
  }

  LinearCase given;
  Tensor y;
};

// True for the rows that are lost: those with a number that is not finite, or all of them.
Tensor lost_rows(const Tensor& operand, const Format& format) {
  const Tensor lost = at::isfinite(operand).logical_not();
  return format.loses_tensor ? lost.any().expand({operand.size(0)}) : lost.any(1);
}

// A product sums over rows of both operands, so a lost row of one is a lost row or column of the product.
void expect_lost(const Tensor& product, const Tensor& left, const Tensor& right, const Format& format) {
  const Tensor lost = lost_rows(left, format).unsqueeze(1).logical_or(lost_rows(right, format));
  EXPECT_TRUE(at::equal(product.detach().isnan(), lost));
  EXPECT_TRUE(at::equal(at::isfinite(product.detach()), lost.logical_not()));
}

void expect_lost(const Layer& layer, const Format& format) {
  const Tensor x = layer.operand(kX), weight = layer.operand(kWeight), grad_y = layer.operand(kGradient);
  expect_lost(layer.y, x, weight, format);
  expect_lost(layer.given.x.grad(), grad_y, weight.t(), format);
  expect_lost(layer.given.weight.grad(), grad_y.t(), x.t(), format);
  // The gradient of the bias is a sum of numbers that are not rounded.
  EXPECT_TRUE(at::equal(at::isfinite(layer.given.bias.grad()), at::isfinite(grad_y).all(0)));
}

TEST(ExtremeNumbers, WhatIsNotFiniteIsLostWithTheNumbersOfItsScale) {
  for (const Format& format : kFormats) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const Operand which : {kX, kWeight, kGradient}) {
        for (const float number : {kInfinity, -kInfinity, kNan}) {
          SCOPED_TRACE(format.name + ", " + at::toString(type) + ", operand " + std::to_string(which) + ", " +
                       std::to_string(number));
          Layer one(type), row(type);
          one.operand(which)[5][7] = number;
          row.operand(which)[5] = number;
          one.run(format);
          row.run(format);
          expect_lost(one, format);
          expect_lost(row, format);
        }
      }
    }
  }
}

Tensor rounded(const Tensor& matrix, QuantizedFormat format, const kernels::DelayedScale& scale) {
  return kernels::rounded_to(matrix.contiguous(), format, kernels::Rounding::nearest_even, /*key=*/{}, scale)
      .to(at::kDouble);
}

void expect_finite(const Layer& layer, const Format& format) {
  const auto& [values, gradients] = format.formats;
  const DelayedScales scales = scales_of(format);
  const Tensor x = layer.operand(kX), weight = layer.operand(kWeight), grad_y = layer.operand(kGradient);
  const auto close = [](const Tensor& actual, const Tensor& expected) {
    EXPECT_TRUE(at::isfinite(actual.detach()).all().item<bool>());
    EXPECT_LE((actual.detach().to(at::kDouble) - expected).abs().max().item<double>(),
              1e-5 * expected.abs().max().item<double>() + std::numeric_limits<float>::min());
  };
  close(layer.y, at::mm(rounded(x, values, scales.x), rounded(weight, values, scales.weight).t()) +
                     layer.given.bias.detach().to(at::kDouble));
  close(layer.given.x.grad(),
        at::mm(rounded(grad_y, gradients, scales.gradient), rounded(weight.t(), values, scales.weight).t()));
  close(layer.given.weight.grad(),
        at::mm(rounded(grad_y.t(), gradients, scales.gradient), rounded(x.t(), values, scales.x).t()));
  close(layer.given.bias.grad(), grad_y.to(at::kDouble).sum(0));
}

TEST(ExtremeNumbers, FiniteOperandsHaveFiniteProducts) {
  for (const Format& format : kFormats) {
    for (const Operand which : {kX, kWeight, kGradient}) {
      for (const float number : {kMost, -3e38F, 1e-40F, 1e-45F, 0.0F, -0.0F}) {
        SCOPED_TRACE(format.name + ", operand " + std::to_string(which) + ", " + std::to_string(number));
        Layer one(at::kFloat), row(at::kFloat), all(at::kFloat);
        one.operand(which)[5][7] = number;
        row.operand(which)[5] = number;
        // A product of numbers of 3e38 and sums of many of them may overflow, as without a format.
        if (std::abs(number) < 1) all.operand(which).fill_(number);
        for (Layer* layer : {&one, &row, &all}) {
          layer->run(format);
          expect_finite(*layer, format);
        }
      }
    }
  }
}

TEST(ExtremeNumbers, AProductOverflowsAsWithoutAFormat) {
  for (const Format& format : kFormats) {
    if (format.delayed) continue;  // 3e38 saturates to 4
    SCOPED_TRACE(format.name);
    Layer layer(at::kFloat);
    layer.operand(kX)[5] = 3e38F;
    layer.operand(kWeight)[9] = 3.0F;
    layer.run(format);
    const Tensor finite = at::isfinite(layer.y.detach());
    EXPECT_FALSE(finite[5][9].item<bool>());
    EXPECT_EQ(finite.logical_not().sum().item<int64_t>(), 1);
    EXPECT_TRUE(at::isfinite(layer.given.x.grad()).all().item<bool>());
    EXPECT_TRUE(at::isfinite(layer.given.weight.grad()).all().item<bool>());
  }
}

// The numbers of the table of docs/formats.md.
TEST(ExtremeNumbers, BecomeTheNumbersOfThePage) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    const auto& [values, gradients] = format.formats;
    const auto expect = [&](QuantizedFormat each, float number, double expected) {
      const Tensor matrix = at::full({2, 128}, number);
      const Tensor actual = rounded(matrix, each, scales_of(format).x);
      EXPECT_LE((actual - expected).abs().max().item<double>(), 3e-7 * expected) << name(each) << " of " << number;
    };
    for (const QuantizedFormat each : {values, gradients}) {
      expect(each, 3e38F, format.large);
      expect(each, 0, 0);
    }
    expect(values, 1e-40F, format.small);
    expect(gradients, 1e-40F, format.small_gradient);
    // Rows of 1e-40 beside others: where they share a scale, they are zeros.
    const Tensor matrix = at::full({2, 128}, 1e-40F);
    matrix[1] = 1.0F;
    const Tensor actual = rounded(matrix, gradients, scales_of(format).x)[0];
    EXPECT_EQ(actual.max().item<double>(), format.loses_tensor ? 0 : format.small_gradient);
  }
}

}  // namespace
}  // namespace strata::modules
