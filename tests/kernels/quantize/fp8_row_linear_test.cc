// SPDX-License-Identifier: MIT
// Layers in FP8 whose rows have scales, without a GPU: which ones there are, and the shapes and the memory of tensors
// without values. Their numbers are those of fp8_row_operand_gpu_test.cc and fp8_row_linear_gpu_test.cc.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/linear/fp8_gated_linear.h"
#include "kernels/linear/fp8_linear.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

constexpr QuantizedFormat kValues = {Element::e4m3, Scaling::row}, kGradients = {Element::e5m2, Scaling::row};
constexpr ProductFormats kByRow = {kValues, kGradients};
constexpr ProductFormats kByTensor = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};

Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) {
  return at::empty(sizes, at::device(at::kMeta).dtype(type)).requires_grad_();
}

TEST(Fp8RowLinear, IsMultipliedAtLevelCuda) {
  const auto multiplies = [](QuantizedFormat values, QuantizedFormat gradients, Level level = Level::cuda,
                             int64_t inputs = 64, int64_t outputs = 48) {
    return multiplies_in_fp8({values, gradients}, level, inputs, outputs);
  };
  EXPECT_TRUE(multiplies(kValues, kGradients));
  EXPECT_TRUE(multiplies(kValues, kValues));
  EXPECT_FALSE(multiplies(kValues, kGradients, Level::aten));
  EXPECT_FALSE(multiplies(kValues, kGradients, Level::cuda, 72));
  EXPECT_FALSE(multiplies(kValues, kGradients, Level::cuda, 64, 40));
  EXPECT_FALSE(multiplies(kValues, kByTensor.gradients));
  EXPECT_FALSE(multiplies(kByTensor.values, kGradients));
  EXPECT_FALSE(multiplies({Element::e4m3, Scaling::block}, {Element::e5m2, Scaling::block}));
  EXPECT_FALSE(multiplies(kGradients, kGradients));
}

TEST(Fp8RowOperand, HasAScaleForEachRowOfEachLayout) {
  const Tensor x = leaf({17, 48});
  const Fp8Operand both = fp8_operand(x, kGradients, OperandLayouts::both);
  EXPECT_TRUE(both.rows.is_meta());
  EXPECT_EQ(both.rows.scalar_type(), at::kFloat8_e5m2);
  EXPECT_EQ(both.rows.sizes(), at::IntArrayRef({17, 48}));
  EXPECT_EQ(both.columns.sizes(), at::IntArrayRef({48, 32}));
  EXPECT_EQ(both.rows_scale.sizes(), at::IntArrayRef({17}));
  EXPECT_EQ(both.columns_scale.sizes(), at::IntArrayRef({48}));
  EXPECT_EQ(both.rows_scale.scalar_type(), at::kFloat);
  EXPECT_EQ(both.amax.sizes(), at::IntArrayRef({17 + 48}));
  const Fp8Operand rows = fp8_operand(x, kValues, OperandLayouts::rows, both.amax);
  EXPECT_TRUE(rows.rows_scale.defined() && rows.amax.is_same(both.amax));
  EXPECT_FALSE(rows.columns.defined() || rows.columns_scale.defined());
  const Fp8Operand columns = fp8_operand(x, kValues, OperandLayouts::columns);
  EXPECT_TRUE(columns.columns_scale.defined());
  EXPECT_FALSE(columns.rows.defined() || columns.rows_scale.defined());
  EXPECT_EQ(fp8_operand(leaf({0, 48}), kValues, OperandLayouts::both).columns_scale.sizes(), at::IntArrayRef({48}));
}

void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "expected: " << part;
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos) << error.what();
  }
}

TEST(Fp8RowOperand, RefusesOtherScalingsAndOtherMagnitudes) {
  const Tensor x = leaf({17, 48});
  const auto operand = [&](QuantizedFormat format, int64_t magnitudes) {
    return [&, format, magnitudes] {
      fp8_operand(x, format, OperandLayouts::both, leaf({magnitudes}, at::kFloat).view(at::kInt));
    };
  };
  expect_refused(operand({Element::e4m3, Scaling::block}, 65), "fp8_operand: scaling is block, expected tensor or row");
  expect_refused(operand(kValues, 64), "expected int32 [65], contiguous");
  expect_refused(operand(kValues, 1024), "expected int32 [65], contiguous");
  expect_refused(operand(kByTensor.values, 65), "expected int32 [1024], contiguous");
  expect_refused(
      [&] {
        fp8_operand(x, kValues, OperandLayouts::both, /*amax=*/{}, {leaf({1}, at::kFloat), {}});
      },
      "fp8_operand: a delayed scale for scaling row, expected tensor");
}

TEST(Fp8RowLinear, IsNoGatedLayer) {
  Tracing tracing(c10::kCUDA);
  const Tensor x = leaf({32, 64}), weight = leaf({96, 64});
  expect_refused(
      [&] {
        fp8_gated_linear(x, {weight, {}, kByRow}, Activation::silu);
      },
      "fp8_gated_linear: scaling is row, expected tensor");
}

struct Bytes {
  int64_t saved, most;
};

Bytes bytes_of(const ProductFormats& formats) {
  Tracing tracing(c10::kCUDA);
  const Tensor x = leaf({3, 1000, 256}), weight = leaf({512, 256}), bias = leaf({512});
  const int64_t before = tracing.current_bytes();
  tracing.reset_peak();
  const Tensor y = fp8_linear(x, {weight, bias, formats});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 1000, 512}));
  const int64_t saved = tracing.current_bytes() - before;
  y.backward(at::empty(y.sizes(), y.options().requires_grad(false)));
  for (const Tensor& one : {x, weight, bias}) EXPECT_EQ(one.grad().sizes(), one.sizes());
  return {saved, tracing.peak_bytes() - before};
}

// The result, and the codes of x for the gradient of the weight; scales and magnitudes are small.
TEST(Fp8RowLinear, SavesTheCodesOfX) {
  constexpr int64_t kPaddedTokens = 3008, kResult = 3000 * 512 * 2, kCodes = kPaddedTokens * 256;
  const Bytes by_row = bytes_of(kByRow), by_tensor = bytes_of(kByTensor);
  const int64_t scales = 256 * 4 + (512 + 256) * 4;
  EXPECT_GE(by_row.saved, kResult + kCodes + scales);
  EXPECT_LE(by_row.saved, kResult + kCodes + scales + 4096);
  EXPECT_LE(by_row.saved, by_tensor.saved + (1 << 15));
  EXPECT_LE(by_row.most, by_tensor.most + (1 << 16));
}

}  // namespace
}  // namespace strata::kernels
