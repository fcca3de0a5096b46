// SPDX-License-Identifier: MIT
// Products of FP8 codes on a GPU, against products in fp64 of operands that quantize() rounds on the CPU.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/quantize.h"
#include "kernels/runtime/gradient_destination.h"
#include "tests/kernels/quantize/fp8_layer_cases.h"

namespace strata::kernels {
namespace {

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};

const std::vector<LayerSizes> kSizes = {{{1}, 16, 16},        {{17}, 48, 80},         {{3, 13}, 128, 256},
                                        {{2, 64}, 768, 2304}, {{2, 3, 100}, 256, 64}, {{1000}, 4096, 1024},
                                        {{4096}, 2048, 512}};

// The largest error of a row, as a share of the norm of the row that has the mean norm.
double row_error(const Tensor& actual, const Tensor& expected) {
  const Tensor difference = actual.cpu().to(at::kDouble) - expected;
  return (difference.square().sum(-1).sqrt().max() / expected.square().sum(-1).mean().sqrt()).item<double>();
}

struct Layer {
  Layer(const LayerSizes& sizes, at::ScalarType type, bool has_bias) {
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

// Bounds of row_error. Results have 8 or 11 bits in bf16 and fp16. Tensor cores keep 14 bits of a sum: the forward cuts
// off the others after each 32 products (3.2 * 2^-11 for 4096 products on an H100), and gradients after each 128.
double tolerance(at::ScalarType type) { return type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-10 : 0x1p-11; }
double tolerance_of_forward(at::ScalarType type, int64_t products) {
  return tolerance(type) + static_cast<double>(products) * 0x1p-21;
}

void expect_products(const LayerSizes& sizes, at::ScalarType type, bool has_bias) {
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
  EXPECT_LT(row_error(rows_of(y), expected_y), tolerance_of_forward(type, sizes.inputs));
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
  try_layers(kSizes, kFp8, expect_products);
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
  const LayerSizes sizes = {{39}, 128, 256};
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Layer layer(sizes, at::kBFloat16, /*has_bias=*/true);
    const Tensor expected = at::mm(rounded(layer.grad_y, kFp8.gradients).t(), rounded(layer.x, kFp8.values));
    const Tensor sums = layer.grad_y.cpu().to(at::kDouble).sum(0, /*keepdim=*/true);
    const Tensor into = at::ones({256, 128}, at::device(at::kCUDA).dtype(type));
    const Tensor bias_into = at::ones({256}, into.options());
    for (const bool add : {false, true}) {
      set_gradient_destination(layer.weight, [&, add] { return GradientDestination{into, add}; });
      set_gradient_destination(layer.bias, [&, add] { return GradientDestination{bias_into, add}; });
      quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda).backward(layer.grad_y);
      const double times = add ? 2 : 1;  // an fp32 destination is not rounded to 16 bits on the way
      EXPECT_LT(row_error(into, times * expected), times * tolerance(type));
      EXPECT_LT(row_error(bias_into.unsqueeze(0), times * sums), times * tolerance(type));
    }
    EXPECT_FALSE(layer.weight.grad().defined());
    EXPECT_FALSE(layer.bias.grad().defined());
  }
}

TEST(Fp8Linear, GivesOnlyTheGradientsThatAreNeeded) {
  const LayerSizes sizes = {{39}, 128, 256};
  Layer all(sizes, at::kBFloat16, /*has_bias=*/true);
  quantized_linear(all.x, all.weight, all.bias, kFp8, Level::cuda).backward(all.grad_y);
  for (const int needed : {1, 2, 3, 4, 5, 6}) {
    const Layer some(sizes, at::kBFloat16, /*has_bias=*/true);
    const std::vector<std::pair<Tensor, Tensor>> leaves = {
        {some.x, all.x.grad()}, {some.weight, all.weight.grad()}, {some.bias, all.bias.grad()}};
    for (size_t i = 0; i < leaves.size(); ++i) leaves[i].first.requires_grad_((needed >> i & 1) != 0);
    quantized_linear(some.x, some.weight, some.bias, kFp8, Level::cuda).backward(some.grad_y);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto& [leaf, expected] = leaves[i];
      if ((needed >> i & 1) == 0) {
        EXPECT_FALSE(leaf.grad().defined()) << needed;
      } else {
        EXPECT_TRUE(leaf.grad().equal(expected)) << needed;
      }
    }
  }
}

TEST(Fp8Linear, TakesAnyStrides) {
  const LayerSizes sizes = {{40}, 128, 256};
  const Layer layer(sizes, at::kBFloat16, /*has_bias=*/true);
  const auto strided = [](const Tensor& tensor) {
    return tensor.detach().repeat_interleave(2, -1).slice(-1, 0, {}, 2);
  };
  const Tensor y = quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda);
  y.backward(layer.grad_y);
  const Tensor x = strided(layer.x).requires_grad_(), bias = strided(layer.bias).requires_grad_();
  const Tensor weight = strided(layer.weight).requires_grad_();
  const Tensor again = quantized_linear(x, weight, bias, kFp8, Level::cuda);
  again.backward(strided(layer.grad_y));
  EXPECT_TRUE(again.equal(y));
  EXPECT_TRUE(x.grad().equal(layer.x.grad()));
  EXPECT_TRUE(weight.grad().equal(layer.weight.grad()));
  EXPECT_TRUE(bias.grad().equal(layer.bias.grad()));
}

TEST(Fp8Linear, HasDelayedScalesAndRecords) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    SCOPED_TRACE(c10::toString(type));
    Layer layer({{3, 13}, 128, 256}, type, /*has_bias=*/true);
    const auto one = [](double number) { return at::full({1}, number, at::device(at::kCUDA).dtype(at::kFloat)); };
    const auto largest = [](const Tensor& tensor) { return tensor.detach().to(at::kFloat).abs().max().item<float>(); };
    for (const double factor : {0.0, 0.5, 1.7}) {  // 0: no history
      const auto scale_of = [&](const Tensor& tensor) { return DelayedScale{one(factor * largest(tensor)), one(0)}; };
      const DelayedScales scales = {scale_of(layer.x), scale_of(layer.weight), scale_of(layer.grad_y)};
      for (const Tensor& leaf : {layer.x, layer.weight, layer.bias}) leaf.mutable_grad() = Tensor();
      const auto rounded_by = [](const Tensor& matrix, QuantizedFormat format, const DelayedScale& scale) {
        const Tensor rows = rows_of(matrix).cpu().to(at::kFloat).contiguous();
        return rounded_to(rows, format, Rounding::nearest_even, {}, {scale.past.cpu(), {}}).to(at::kDouble);
      };
      const Tensor x = rounded_by(layer.x, kFp8.values, scales.x);
      const Tensor weight = rounded_by(layer.weight, kFp8.values, scales.weight);
      const Tensor grad = rounded_by(layer.grad_y, kFp8.gradients, scales.gradient);
      const Tensor y = quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda, scales);
      EXPECT_EQ(scales.gradient.present.item<float>(), 0);
      y.backward(layer.grad_y);
      const Tensor expected_y = at::mm(x, weight.t()) + layer.bias.detach().cpu().to(at::kDouble);
      EXPECT_LT(row_error(rows_of(y), expected_y), tolerance_of_forward(type, 128)) << factor;
      EXPECT_LT(row_error(rows_of(layer.x.grad()), at::mm(grad, weight)), tolerance(type)) << factor;
      EXPECT_LT(row_error(layer.weight.grad(), at::mm(grad.t(), x)), tolerance(type)) << factor;
      EXPECT_EQ(scales.x.present.item<float>(), largest(layer.x));
      EXPECT_EQ(scales.weight.present.item<float>(), largest(layer.weight));
      EXPECT_EQ(scales.gradient.present.item<float>(), largest(layer.grad_y));
      for (const DelayedScale& scale : {scales.x, scales.weight, scales.gradient}) scale.present.zero_();
      const at::NoGradGuard no_gradients;
      EXPECT_TRUE(quantized_linear(layer.x, layer.weight, layer.bias, kFp8, Level::cuda, scales).equal(y));
      for (const DelayedScale& scale : {scales.x, scales.weight, scales.gradient}) {
        EXPECT_EQ(scale.present.item<float>(), 0);
      }
    }
  }
}

// Otherwise a biased layer takes another pass and a copy in fp32.
TEST(Fp8Linear, ABiasIsAnEpilogue) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor x = at::randn({256, 512}).cuda().to(type), weight = at::randn({768, 512}).cuda().to(type);
    const Fp8Operand a = fp8_operand(x, kFp8.values, OperandLayouts::rows);
    const Fp8Operand b = fp8_operand(weight, kFp8.values, OperandLayouts::rows);
    EXPECT_TRUE(try_gemm("linear", {.a = a.rows,
                                    .b = b.rows.t(),
                                    .out = at::empty({256, 768}, x.options()),
                                    .bias = at::randn({768}).cuda().to(type),
                                    .a_scale = a.rows_scale,
                                    .b_scale = b.rows_scale,
                                    .fast_sums = true}));
  }
}

TEST(Fp8Linear, ALostNumberIsSeen) {
  const Layer layer({{39}, 128, 256}, at::kBFloat16, false);
  for (const double lost : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const Tensor x = layer.x.detach().clone(), weight = layer.weight.detach().clone();
    x[38][5] = lost;
    EXPECT_TRUE(quantized_linear(x, weight, /*bias=*/{}, kFp8, Level::cuda).isnan().all().item<bool>());
    const Tensor grad_y = layer.grad_y.clone();
    grad_y[0][0] = lost;
    const Tensor leaf = layer.x.detach().requires_grad_(), weight_leaf = layer.weight.detach().requires_grad_();
    quantized_linear(leaf, weight_leaf, /*bias=*/{}, kFp8, Level::cuda).backward(grad_y);
    EXPECT_TRUE(leaf.grad().isnan().all().item<bool>());
    EXPECT_TRUE(weight_leaf.grad().isnan().all().item<bool>());
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
