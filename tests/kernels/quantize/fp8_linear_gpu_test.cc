// SPDX-License-Identifier: MIT
// Products of FP8 codes on a GPU, against products in fp64 of operands that quantize() rounds on the CPU.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/linear/fp8_products.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/quantize.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};

struct Sizes {
  std::vector<int64_t> tokens;
  int64_t inputs, outputs;
};
const std::vector<Sizes> kSizes = {{{1}, 16, 16},        {{17}, 48, 80},         {{3, 13}, 128, 256},
                                   {{2, 64}, 768, 2304}, {{2, 3, 100}, 256, 64}, {{1000}, 4096, 1024},
                                   {{4096}, 2048, 512}};

// The numbers that quantize() makes of the rows of a matrix: fp64, on the CPU.
Tensor rounded(const Tensor& matrix, QuantizedFormat format) {
  const Tensor rows = matrix.detach().cpu().contiguous();
  return dequantize(quantize(rows, format, Rounding::nearest_even, /*key=*/{}), format, at::kFloat).to(at::kDouble);
}
Tensor rows_of(const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}); }

// The largest error of a row, as a share of the norm of the row that has the mean norm.
double row_error(const Tensor& actual, const Tensor& expected) {
  const Tensor difference = actual.cpu().to(at::kDouble) - expected;
  return (difference.square().sum(-1).sqrt().max() / expected.square().sum(-1).mean().sqrt()).item<double>();
}

struct Layer {
  Layer(const Sizes& sizes, at::ScalarType type, bool has_bias) {
    at::manual_seed(11);
    std::vector<int64_t> shape = sizes.tokens;
    shape.push_back(sizes.inputs);
    const auto made = [&](at::IntArrayRef size) { return at::randn(size).to(type).cuda(); };
    x = made(shape).requires_grad_();
    weight = made({sizes.outputs, sizes.inputs}).requires_grad_();
    if (has_bias) bias = made({sizes.outputs}).requires_grad_();
    shape.back() = sizes.outputs;
    grad_y = made(shape);
  }
  Tensor x, weight, bias, grad_y;
};

// Tensor cores sum in about 14 bits. Results have 8 or 11 bits in bf16 and fp16.
double tolerance(at::ScalarType type) { return type == at::kBFloat16 ? 0x1p-8 : 0x1p-11; }

void expect_products(const Sizes& sizes, at::ScalarType type, bool has_bias) {
  const Layer layer(sizes, type, has_bias);
  const auto& [x, weight, bias, grad_y] = layer;
  const Tensor y = quantized_linear(x, weight, bias, kFp8, Level::cuda);
  y.backward(grad_y);
  Tensor expected_y = at::mm(rounded(rows_of(x), kFp8.values), rounded(weight, kFp8.values).t());
  if (has_bias) expected_y += bias.detach().cpu().to(at::kDouble);
  const Tensor grad = rounded(rows_of(grad_y), kFp8.gradients);
  const Tensor expected_x = at::mm(grad, rounded(weight, kFp8.values));
  const Tensor expected_weight = at::mm(grad.t(), rounded(rows_of(x), kFp8.values));
  const double most = tolerance(type);
  EXPECT_EQ(y.sizes(), grad_y.sizes());
  EXPECT_EQ(y.scalar_type(), type);
  EXPECT_LT(row_error(rows_of(y), expected_y), most);
  EXPECT_LT(row_error(rows_of(x.grad()), expected_x), most);
  EXPECT_LT(row_error(weight.grad(), expected_weight), most);
  if (has_bias) {
    const Tensor sums = rows_of(grad_y).cpu().to(at::kDouble).sum(0, /*keepdim=*/true);
    EXPECT_LT(row_error(bias.grad().unsqueeze(0), sums), most);
  }
  // Without rounding the products are others, so the numbers above can fail.
  EXPECT_GT(row_error(at::mm(rows_of(grad_y), weight.detach()), expected_x), 4 * most);
  const c10::InferenceMode inference;
  EXPECT_TRUE(quantized_linear(x.detach(), weight.detach(), bias.defined() ? bias.detach() : bias, kFp8, Level::cuda)
                  .equal(y.detach()));
}

TEST(Fp8Linear, ItsProductsAreThoseOfRoundedOperands) {
  ASSERT_TRUE(at::hasCUDA());
  for (const Sizes& sizes : kSizes) {
    ASSERT_TRUE(multiplies_in_fp8(kFp8, Level::cuda, sizes.inputs, sizes.outputs));
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(sizes.tokens.back()) + " tokens, " +
                     std::to_string(sizes.inputs) + " -> " + std::to_string(sizes.outputs) +
                     (has_bias ? " with bias" : ""));
        expect_products(sizes, type, has_bias);
      }
    }
  }
}

// Whole numbers whose largest one makes the scale 1. All sums are exact, so results have the bits of fp64.
TEST(Fp8Linear, WholeNumbersAreExact) {
  at::manual_seed(12);
  const int64_t tokens = 77, inputs = 272, outputs = 144;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    SCOPED_TRACE(c10::toString(type));
    const Tensor x = at::randint(-1, 2, {tokens, inputs}), weight = at::randint(-1, 2, {outputs, inputs});
    const Tensor grad_y = at::randint(-1, 2, {tokens, outputs});
    // The largest numbers meet zeros only: x[7, 5] in weight and grad_y, weight[10, 3] in x and grad_y, and so on.
    for (const Tensor& zeros : {weight.select(1, 5), grad_y.select(0, 7), x.select(1, 3), grad_y.select(1, 10),
                                x.select(0, 8), weight.select(0, 9)}) {
      zeros.zero_();
    }
    x[7][5] = 448;
    weight[10][3] = 448;
    grad_y[8][9] = 57344;
    const auto on_gpu = [&](const Tensor& tensor) { return tensor.to(type).cuda(); };
    const Tensor gpu_x = on_gpu(x).requires_grad_(), gpu_weight = on_gpu(weight).requires_grad_();
    const Tensor y = quantized_linear(gpu_x, gpu_weight, /*bias=*/{}, kFp8, Level::cuda);
    y.backward(on_gpu(grad_y));
    const auto product = [](const Tensor& a, const Tensor& b) { return at::mm(a.to(at::kDouble), b.to(at::kDouble)); };
    const auto is = [&](const Tensor& gpu, const Tensor& expected) {
      return gpu.cpu().to(at::kDouble).equal(expected);
    };
    EXPECT_TRUE(is(y.detach(), product(x, weight.t())));
    EXPECT_TRUE(is(gpu_x.grad(), product(grad_y, weight)));
    EXPECT_TRUE(is(gpu_weight.grad(), product(grad_y.t(), x)));
  }
}

TEST(Fp8Linear, GradientsGoToTheirDestinations) {
  const Sizes sizes = {{39}, 128, 256};
  const Layer returned(sizes, at::kBFloat16, true);
  quantized_linear(returned.x, returned.weight, returned.bias, kFp8, Level::cuda).backward(returned.grad_y);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Layer written(sizes, at::kBFloat16, true);
    const Tensor into = at::ones({256, 128}, at::device(at::kCUDA).dtype(type));
    const Tensor bias_into = at::ones({256}, into.options());
    for (const bool add : {false, true}) {
      set_gradient_destination(written.weight, [&, add] { return GradientDestination{into, add}; });
      set_gradient_destination(written.bias, [&, add] { return GradientDestination{bias_into, add}; });
      quantized_linear(written.x, written.weight, written.bias, kFp8, Level::cuda).backward(written.grad_y);
      const double times = add ? 2 : 1;
      EXPECT_LT(row_error(into, times * returned.weight.grad().cpu().to(at::kDouble)), 0x1p-7);
      EXPECT_LT(row_error(bias_into.unsqueeze(0), times * returned.bias.grad().cpu().to(at::kDouble).unsqueeze(0)),
                0x1p-7);
    }
    EXPECT_FALSE(written.weight.grad().defined());
    EXPECT_FALSE(written.bias.grad().defined());
  }
}

TEST(Fp8Linear, ALostNumberIsSeen) {
  const Layer layer({{39}, 128, 256}, at::kBFloat16, false);
  for (const double lost : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const Tensor x = layer.x.detach().clone(), weight = layer.weight.detach().clone();
    x[38][5] = lost;
    EXPECT_TRUE(quantized_linear(x, weight, /*bias=*/{}, kFp8, Level::cuda).isnan().all().item<bool>());
    weight[0][0] = lost;
    EXPECT_TRUE(quantized_linear(layer.x, weight, /*bias=*/{}, kFp8, Level::cuda).isnan().all().item<bool>());
  }
}

TEST(Fp8Linear, NoTokensAreNoError) {
  Layer layer({{0}, 128, 256}, at::kBFloat16, true);
  const Tensor y = quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda);
  y.backward(layer.grad_y);
  EXPECT_EQ(y.numel(), 0);
  EXPECT_EQ(layer.weight.grad().abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace strata::kernels
