// SPDX-License-Identifier: MIT
// Products of FP8 codes whose rows have scales, on a GPU, against products in fp64 of operands that quantize() rounds
// on the CPU. Rows and columns have very different sizes, so a wrong scale is a large error. The last case prints the
// rates.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/quantize.h"
#include "kernels/runtime/gradient_destination.h"
#include "tests/kernels/quantize/fp8_layer_cases.h"
#include "tests/kernels/quantize/gpu_checks.h"

namespace strata::kernels {
namespace {

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::row}, {Element::e5m2, Scaling::row}};

const std::vector<LayerSizes> kSizes = {{{1}, 16, 16},        {{17}, 48, 80},       {{3, 13}, 128, 256},
                                        {{2, 64}, 768, 2304}, {{1000}, 4096, 1024}, {{4096}, 2048, 512}};

// Rows and columns of different sizes; those of `spread` 2 differ by up to 2^20.
Tensor uneven(int64_t rows, int64_t columns, double spread) {
  const auto factors = [&](at::IntArrayRef shape) { return (at::randn(shape) * spread).exp(); };
  return at::randn({rows, columns}) * factors({rows, 1}) * factors({1, columns});
}

// Bounds of a product: how much the type of the result may change a number, and the tensor cores a sum, as a share of
// the sum of magnitudes. They keep 14 bits of a sum: the forward of all products, and gradients of 128.
struct Bounds {
  double type_bound, sum_bound;
};
Bounds bounds_of(at::ScalarType type, int64_t products_of_forward = 0) {
  const double type_bound = type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-10 : 0x1p-22;
  return {type_bound, 0x1p-8 + static_cast<double>(products_of_forward) * 0x1p-20};
}

// The largest error of an element of a b^T + bias, as a share of its bound. a and b are fp64.
double share_of_bound(const Tensor& actual, const Tensor& a, const Tensor& b, const Bounds& bounds,
                      const Tensor& bias = {}) {
  const auto product = [](const Tensor& left, const Tensor& right) { return at::mm(left.cuda(), right.cuda().t()); };
  Tensor expected = product(a, b);
  const Tensor sum_bound = product(a.abs(), b.abs()) * bounds.sum_bound;
  if (bias.defined()) expected += bias.detach().to(at::kDouble);
  const Tensor error = (actual.detach().to(at::kDouble) - expected).abs();
  return (error / (expected.abs() * bounds.type_bound + sum_bound + 0x1p-24)).max().item<double>();
}

struct Layer {
  Layer(const LayerSizes& sizes, at::ScalarType type, bool has_bias, int64_t seed = 11) {
    at::manual_seed(seed);
    const double spread = type == at::kHalf ? 0.5 : 2;
    std::vector<int64_t> shape = sizes.tokens;
    int64_t tokens = 1;
    for (const int64_t size : shape) tokens *= size;
    const auto made = [&](int64_t rows, int64_t columns) { return uneven(rows, columns, spread).to(type).cuda(); };
    shape.push_back(sizes.inputs);
    x = made(tokens, sizes.inputs).view(shape).requires_grad_();
    weight = made(sizes.outputs, sizes.inputs).requires_grad_();
    if (has_bias) bias = made(1, sizes.outputs).view(-1).requires_grad_();
    shape.back() = sizes.outputs;
    grad_y = made(tokens, sizes.outputs).view(shape);
  }
  Tensor x, weight, bias, grad_y;
};

void expect_products(const LayerSizes& sizes, at::ScalarType type, bool has_bias) {
  const Layer layer(sizes, type, has_bias);
  const auto& [x, weight, bias, grad_y] = layer;
  const auto& [values, gradients] = kFp8;
  const Tensor y = quantized_linear(x, weight, bias, kFp8, Level::cuda);
  y.backward(grad_y);
  EXPECT_EQ(y.sizes(), grad_y.sizes());
  EXPECT_EQ(y.scalar_type(), type);
  const Tensor x_NI = rows_of(x), grad_NO = rows_of(grad_y);
  const Bounds forward = bounds_of(type, sizes.inputs), backward = bounds_of(type);
  EXPECT_LT(share_of_bound(rows_of(y), rounded(x_NI, values), rounded(weight, values), forward, bias), 1);
  EXPECT_LT(share_of_bound(rows_of(x.grad()), rounded(grad_NO, gradients), rounded(weight.t(), values), backward), 1);
  EXPECT_LT(share_of_bound(weight.grad(), rounded(grad_NO.t(), gradients), rounded(x_NI.t(), values), backward), 1);
  if (has_bias) {
    const Tensor ones = at::ones({1, grad_NO.size(0)}, at::kDouble);
    EXPECT_LT(share_of_bound(bias.grad().unsqueeze(0), ones, grad_NO.t().to(at::kDouble), backward), 1);
  }
  const c10::InferenceMode inference;
  EXPECT_TRUE(quantized_linear(x.detach(), weight.detach(), bias.defined() ? bias.detach() : bias, kFp8, Level::cuda)
                  .equal(y.detach()));
}

TEST(Fp8RowLinear, ItsProductsAreThoseOfRoundedOperands) {
  ASSERT_TRUE(at::hasCUDA());
  try_layers(kSizes, kFp8, expect_products);
}

// The products of wrong scales are far from those of the right ones.
TEST(Fp8RowLinear, ItsChecksRefuseWrongScales) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(12);
  const Tensor x = uneven(256, 512, 2).to(at::kBFloat16).cuda(), weight = uneven(256, 512, 2).to(at::kBFloat16).cuda();
  const Fp8Operand a = fp8_operand(x, kFp8.values, OperandLayouts::rows);
  const Fp8Operand b = fp8_operand(weight, kFp8.values, OperandLayouts::rows);
  const auto share = [&](const Tensor& a_scale, const Tensor& b_scale) {
    const Tensor y = at::empty({256, 256}, x.options());
    gemm("linear", {.a = a.rows, .b = b.rows.t(), .out = y, .a_scale = a_scale, .b_scale = b_scale});
    return share_of_bound(y, rounded(x, kFp8.values), rounded(weight, kFp8.values), bounds_of(at::kBFloat16));
  };
  const auto changed_in = [](const Tensor& scale, int64_t line) {  // one line has the scale of the next
    const Tensor result = scale.clone();
    result[line] = scale[line + 1];
    return result;
  };
  EXPECT_LT(share(a.rows_scale, b.rows_scale), 1);
  EXPECT_GT(share(b.rows_scale, a.rows_scale), 4) << "swapped";
  EXPECT_GT(share(a.rows_scale.roll(1), b.rows_scale), 4);
  EXPECT_GT(share(a.rows_scale, b.rows_scale.roll(1)), 4);
  EXPECT_GT(share(a.rows_scale.mean().expand({256}).contiguous(), b.rows_scale), 4) << "one scale";
  for (const int64_t line : {0, 127, 254}) {
    EXPECT_GT(share(changed_in(a.rows_scale, line), b.rows_scale), 4) << "row " << line;
    EXPECT_GT(share(a.rows_scale, changed_in(b.rows_scale, line)), 4) << "column " << line;
  }
  EXPECT_THROW(share(a.rows_scale.narrow(0, 0, 128), b.rows_scale), c10::ValueError);
  EXPECT_THROW(share(a.rows_scale, b.rows_scale.narrow(0, 0, 1)), c10::ValueError);
}

// Whole numbers times a power of two for each row, which is its scale. All sums are exact, so results have the bits of
// fp64.
TEST(Fp8RowLinear, WholeNumbersAreExact) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(13);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    const auto made = [](int64_t rows, int64_t columns, int64_t largest_in, int64_t period) {
      const Tensor powers = (at::arange(rows) % period - period / 2).to(at::kFloat).exp2();
      const Tensor whole = at::randint(-1, 2, {rows, columns});
      whole.narrow(1, 0, 2).zero_();
      whole.select(1, largest_in).fill_(448);  // it meets zeros of the other operand
      return whole * powers.unsqueeze(1);
    };
    const Tensor x = made(77, 256, 0, 7), weight = made(144, 256, 1, 5);
    const Tensor y = quantized_linear(x.to(type).cuda(), weight.to(type).cuda(), /*bias=*/{}, kFp8, Level::cuda);
    EXPECT_TRUE(y.cpu().to(at::kDouble).equal(at::mm(x.to(at::kDouble), weight.to(at::kDouble).t())))
        << c10::toString(type);
  }
}

TEST(Fp8RowLinear, GradientsGoToTheirDestinations) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Layer layer({{39}, 128, 256}, at::kBFloat16, /*has_bias=*/false);
    const Tensor grad = rounded(layer.grad_y.t(), kFp8.gradients), x = rounded(layer.x.t(), kFp8.values);
    const Tensor into = at::ones({256, 128}, at::device(at::kCUDA).dtype(type));
    for (const bool add : {false, true}) {
      set_gradient_destination(layer.weight, [&, add] { return GradientDestination{into, add}; });
      quantized_linear(layer.x, layer.weight, /*bias=*/{}, kFp8, Level::cuda).backward(layer.grad_y);
      EXPECT_LT(share_of_bound(into, add ? grad * 2 : grad, x, bounds_of(type)), 1) << c10::toString(type) << add;
    }
    EXPECT_FALSE(layer.weight.grad().defined());
  }
}

// A lost number is seen in its row and its column, and no other number is lost.
TEST(Fp8RowLinear, ALostNumberIsSeen) {
  ASSERT_TRUE(at::hasCUDA());
  const auto lost_in = [](const Tensor& matrix, int64_t dimension, int64_t line) {
    const Tensor expected = at::zeros(matrix.sizes(), matrix.options().dtype(at::kBool));
    expected.select(dimension, line).fill_(true);
    return matrix.detach().isnan().equal(expected);
  };
  for (const double lost : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const auto run = [&](Tensor Layer::*operand, int64_t row, int64_t column) {
      Layer layer({{39}, 128, 256}, at::kBFloat16, false);
      layer.x = layer.x.detach(), layer.weight = layer.weight.detach();
      (layer.*operand)[row][column] = lost;
      layer.x.requires_grad_(), layer.weight.requires_grad_();
      const Tensor y = quantized_linear(layer.x, layer.weight, /*bias=*/{}, kFp8, Level::cuda);
      y.backward(layer.grad_y);
      return std::vector<Tensor>{y, layer.x.grad(), layer.weight.grad()};
    };
    const auto nan_in_x = run(&Layer::x, 38, 5), nan_in_weight = run(&Layer::weight, 7, 9),
               nan_in_grad = run(&Layer::grad_y, 0, 3);
    EXPECT_TRUE(lost_in(nan_in_x[0], 0, 38) && lost_in(nan_in_x[2], 1, 5));
    EXPECT_TRUE(lost_in(nan_in_weight[0], 1, 7) && lost_in(nan_in_weight[1], 1, 9));
    EXPECT_TRUE(lost_in(nan_in_grad[1], 0, 0) && lost_in(nan_in_grad[2], 0, 3));
    EXPECT_FALSE(nan_in_x[1].isnan().any().item<bool>() || nan_in_grad[0].isnan().any().item<bool>());
  }
}

// Otherwise a biased layer takes another pass and a copy in fp32.
TEST(Fp8RowLinear, ABiasIsAnEpilogue) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Layer layer({{256}, 512, 768}, type, /*has_bias=*/true);
    const Fp8Operand a = fp8_operand(layer.x.detach(), kFp8.values, OperandLayouts::rows);
    const Fp8Operand b = fp8_operand(layer.weight.detach(), kFp8.values, OperandLayouts::rows);
    EXPECT_TRUE(try_gemm("linear", {.a = a.rows,
                                    .b = b.rows.t(),
                                    .out = at::empty({256, 768}, layer.grad_y.options()),
                                    .bias = layer.bias.detach(),
                                    .a_scale = a.rows_scale,
                                    .b_scale = b.rows_scale,
                                    .fast_sums = true}))
        << c10::toString(type);
  }
}

TEST(Fp8RowLinear, NoTokensAreNoError) {
  ASSERT_TRUE(at::hasCUDA());
  const Layer layer({{0}, 128, 256}, at::kBFloat16, true);
  const Tensor y = quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda);
  y.backward(layer.grad_y);
  EXPECT_EQ(y.numel(), 0);
  EXPECT_EQ(layer.weight.grad().abs().max().item<float>(), 0);
}

// The shapes of the three products of a layer of 2048 inputs and 8192 outputs.
TEST(Fp8RowLinear, RateIsNearThatOfOneScale) {
  ASSERT_TRUE(at::hasCUDA());
  struct Case {
    const char* name;
    int64_t rows, columns, depth;
    Element a_element;
    bool fast_sums;
  };
  constexpr Case kCases[] = {{"forward", 32768, 8192, 2048, Element::e4m3, true},
                             {"gradient of x", 32768, 2048, 8192, Element::e5m2, false},
                             {"gradient of weight", 8192, 2048, 32768, Element::e5m2, false}};
  for (const auto& [name, rows, columns, depth, a_element, fast_sums] : kCases) {
    const auto options = at::device(at::kCUDA).dtype(at::kBFloat16);
    const Tensor x = at::randn({rows, depth}, options), weight = at::randn({columns, depth}, options);
    const Tensor y = at::empty({rows, columns}, options);
    const auto rate = [&](Scaling scaling) {
      const Fp8Operand a = fp8_operand(x, {a_element, scaling}, OperandLayouts::rows);
      const Fp8Operand b = fp8_operand(weight, {Element::e4m3, scaling}, OperandLayouts::rows);
      const Gemm product = {.a = a.rows,
                            .b = b.rows.t(),
                            .out = y,
                            .a_scale = a.rows_scale,
                            .b_scale = b.rows_scale,
                            .fast_sums = fast_sums};
      gemm("linear", product);  // chooses the algorithm
      const double operations =
          2 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
      return operations / seconds_of([&] { gemm("linear", product); });
    };
    const double by_row = rate(Scaling::row), by_tensor = rate(Scaling::tensor);
    std::printf("%s, %ld x %ld x %ld: %.0f TFLOP/s, with one scale %.0f\n", name, static_cast<long>(rows),
                static_cast<long>(columns), static_cast<long>(depth), by_row / 1e12, by_tensor / 1e12);
    EXPECT_GT(by_row, 0.8 * by_tensor) << name;
  }
}

}  // namespace
}  // namespace strata::kernels
