// SPDX-License-Identifier: MIT
// Checks the product of few rows against fp64, for sizes that fill no whole warp or block.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/linear/few_rows.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

Tensor activated(const Tensor& x, Activation kind) {
  return kind == Activation::none ? x : activation(x, kind, Level::aten);
}

struct Inputs {
  Tensor x, weight, bias;
};

Inputs inputs_of(int64_t rows, int64_t in, int64_t out, const at::TensorOptions& options) {
  const auto random = [&](at::IntArrayRef sizes, double factor) {
    return at::randn(sizes, at::kDouble).mul_(factor).to(options);
  };
  return {random({rows, 1, in}, 1), random({out, in}, 1 / std::sqrt(static_cast<double>(in))), random({out}, 1)};
}

// x weight^T + bias in fp64, [rows, out]
Tensor product(const Inputs& inputs) {
  const auto wide = [](const Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
  const Tensor sums = at::mm(wide(inputs.x).flatten(0, 1), wide(inputs.weight).t());
  return inputs.bias.defined() ? sums + wide(inputs.bias) : sums;
}

void expect_near(const Tensor& y, const Tensor& expected, double tolerance, const std::string& name) {
  const Tensor error = (y.to(at::kCPU, at::kDouble).flatten(0, 1) - expected).abs() / (expected.abs() + 1);
  EXPECT_LE(error.max().item<double>(), tolerance) << name;
}

// With this number of outputs, a block on tensor cores computes several tiles, and the last tile is not whole.
constexpr int64_t kManyOutputs = 12700;

TEST(FewRowsOnGpu, EqualTheirDefinition) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  at::manual_seed(5);
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 1e-5), {at::kBFloat16, 0.01}, {at::kHalf, 0.002}}) {
    const at::TensorOptions options = at::dtype(type).device(at::kCUDA);
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const int64_t in : {8, 40, 520, 2048, 2056, 8200}) {
        for (const int64_t out : {int64_t{70}, kManyOutputs}) {
          if (out == kManyOutputs && in > 520) continue;  // the definition takes long
          const Inputs inputs = inputs_of(rows, in, out, options);
          const Tensor sums = product(inputs);
          for (const Activation kind :
               {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
            const std::string name = std::string(at::toString(type)) + ", " + std::to_string(rows) + " rows of " +
                                     std::to_string(in) + ", " + std::to_string(out) + " outputs, " +
                                     std::string(strata::kernels::name(kind));
            ASSERT_TRUE(are_few_rows(inputs.x, inputs.weight)) << name;
            const LinearOp::Output output = linear_of_few_rows(inputs.x, inputs.weight, inputs.bias, kind);
            expect_near(output.y, activated(sums, kind), tolerance, name);
            if (needs_input(kind)) expect_near(output.pre_activation, sums, tolerance, name + ", pre_activation");
            if (kind == Activation::silu || kind == Activation::gelu_tanh) {
              const Tensor gated = gated_linear_of_few_rows(inputs.x, inputs.weight, inputs.bias, kind);
              const Tensor gates = activated(sums.narrow(1, 0, out / 2), kind),
                           factors = sums.narrow(1, out / 2, out / 2);
              expect_near(gated, gates * factors, 2 * tolerance, name + ", gated");
              // The same bits as the two ops, because the product is rounded before the activation.
              const Tensor both = linear(inputs.x, inputs.weight, inputs.bias, Activation::none, Level::cuda);
              EXPECT_TRUE(at::equal(gated, swiglu(both, kind, Level::cuda))) << name;
            }
          }
        }
      }
    }
  }
}

// The plans of few and of many outputs, of short and of long rows; products with a gate and without a bias.
TEST(FewRowsOnGpu, NormedProductsEqualTheirDefinition) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  at::manual_seed(6);
  constexpr double kEps = 1e-5;
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 2e-5), {at::kBFloat16, 0.02}, {at::kHalf, 0.004}}) {
    const at::TensorOptions options = at::dtype(type).device(at::kCUDA);
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const int64_t in : {8, 520, 2056, 2752, 5000}) {
        for (const int64_t out : {int64_t{70}, int64_t{4300}, kManyOutputs}) {
          if (out == kManyOutputs && in > 520) continue;  // the definition takes long
          const std::string name = std::string(at::toString(type)) + ", " + std::to_string(rows) + " rows of " +
                                   std::to_string(in) + ", " + std::to_string(out) + " outputs";
          const Inputs inputs = inputs_of(rows, in, out, options);
          const int64_t most = in == 5000 ? (type == at::kFloat ? 2 : 4) : (type == at::kFloat ? 4 : 8);
          ASSERT_EQ(are_few_normed_rows(inputs.x, inputs.weight), rows <= most) << name;
          if (rows > most) continue;
          const Tensor branch = at::randn_like(inputs.x), scale = at::randn({in}, options);
          for (const bool adds : {false, true}) {
            const NormedInput input = {inputs.x, adds ? branch : Tensor(), scale, kEps};
            const Tensor sum = adds ? inputs.x + branch : inputs.x, bias = adds ? inputs.bias : Tensor();
            const Tensor normed =
                rms_norm(sum.to(at::kCPU, at::kDouble), scale.to(at::kCPU, at::kDouble), kEps, Level::aten);
            const Tensor products = product({normed, inputs.weight, bias});
            const ProductOfNorm plain = linear_of_norm(input, inputs.weight, bias);
            expect_near(plain.y, products, tolerance, name);
            EXPECT_TRUE(at::equal(plain.sum, sum)) << name;
            const ProductOfNorm gated = linear_of_norm(input, inputs.weight, bias, Activation::silu);
            const Tensor gates = products.narrow(1, 0, out / 2), factors = products.narrow(1, out / 2, out / 2);
            // An error of each is multiplied by the other.
            const Tensor slack = factors.abs() + activated(gates, Activation::silu).abs() + 1;
            const Tensor error =
                gated.y.to(at::kCPU, at::kDouble).flatten(0, 1) - activated(gates, Activation::silu) * factors;
            EXPECT_LE((error.abs() / slack).max().item<double>(), 2 * tolerance) << name << ", gated";
            EXPECT_TRUE(at::equal(gated.sum, sum)) << name;
          }
        }
      }
    }
  }
}

TEST(FewRowsOnGpu, OtherTensorsAreNoFewRows) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const at::TensorOptions options = at::dtype(at::kBFloat16).device(at::kCUDA);
  EXPECT_FALSE(are_few_rows(at::randn({8, 64}, options), at::randn({16, 64}, options)));  // weights may change
  const c10::InferenceMode inference;
  const Tensor weight = at::randn({16, 64}, options);
  EXPECT_TRUE(are_few_rows(at::randn({8, 64}, options), weight));
  EXPECT_FALSE(are_few_rows(at::randn({9, 64}, options), weight));
  EXPECT_FALSE(are_few_rows(at::randn({1, 65}, options).narrow(1, 1, 64), weight));
  EXPECT_FALSE(are_few_rows(at::randn({1, 20}, options), at::randn({16, 20}, options)));
  EXPECT_FALSE(are_few_rows(at::randn({1, 64}, options), at::randn({64, 16}, options).t()));
  EXPECT_FALSE(are_few_rows(at::randn({1, 64}, at::kBFloat16), weight.cpu()));
  EXPECT_FALSE(are_few_rows(at::randn({1, 64}, options), weight.cpu()));
}

// The shared memory of a block holds 43 KB of rows, as 1, 2, 4 or 8.
TEST(FewRowsOnGpu, NormedRowsFitIntoSharedMemory) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  const auto rows_of = [](int64_t rows, int64_t in, at::ScalarType type) {
    return inputs_of(rows, in, /*out=*/16, at::dtype(type).device(at::kCUDA));
  };
  const std::vector<std::tuple<at::ScalarType, int64_t, int64_t>> longest = {
      {at::kBFloat16, 1, 22016}, {at::kBFloat16, 2, 11008}, {at::kHalf, 3, 5504},  {at::kHalf, 4, 5504},
      {at::kBFloat16, 5, 2752},  {at::kHalf, 8, 2752},      {at::kFloat, 4, 2752},
  };
  for (const auto& [type, rows, most] : longest) {
    const Inputs last = rows_of(rows, most, type), refused = rows_of(rows, most + 8, type);
    ASSERT_TRUE(are_few_normed_rows(last.x, last.weight)) << rows << " rows of " << most;
    const Tensor scale = at::ones({most}, last.x.options());
    const Tensor normed = rms_norm(last.x.to(at::kCPU, at::kDouble), scale.to(at::kCPU, at::kDouble), 0, Level::aten);
    expect_near(linear_of_norm({last.x, {}, scale, 0}, last.weight, last.bias).y,
                product({normed, last.weight, last.bias}), type == at::kFloat ? 2e-5 : 0.02,
                std::to_string(rows) + " rows");
    EXPECT_FALSE(are_few_normed_rows(refused.x, refused.weight)) << rows << " rows of " << most + 8;
    const Tensor longer = at::ones({most + 8}, last.x.options());
    EXPECT_THROW(linear_of_norm({refused.x, {}, longer, 0}, refused.weight, refused.bias), c10::ValueError);
  }
  const Inputs wide = rows_of(5, 64, at::kFloat);
  EXPECT_FALSE(are_few_normed_rows(wide.x, wide.weight));
}

// The kernel reads its weight early, and this weight was rounded by the kernel before.
TEST(FewRowsOnGpu, OfANumberFormatAreMultipliedAtLevelAten) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  const auto [x, weight, bias] = inputs_of(2, 2048, 4096, at::dtype(at::kBFloat16).device(at::kCUDA));
  ASSERT_TRUE(are_few_rows(x, weight));
  constexpr QuantizedFormat kFormat = {Element::e2m1, Scaling::mx};
  const auto at_level = [&](Level level) { return quantized_linear(x, weight, bias, {kFormat, kFormat}, level); };
  const Tensor expected = at_level(Level::aten);
  for (int repetition = 0; repetition < 20; ++repetition) EXPECT_TRUE(at::equal(at_level(Level::cuda), expected));
}

}  // namespace
}  // namespace strata::kernels
