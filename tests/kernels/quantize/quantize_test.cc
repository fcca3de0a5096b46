// SPDX-License-Identifier: MIT
// quantize, dequantize and rounded_to, bit for bit against the definition of the standards, on blocks of every size.
#include "kernels/quantize/quantize.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/runtime/traced.h"
#include "tests/kernels/quantize/hard_rows.h"
#include "tests/kernels/quantize/standard_formats.h"

namespace strata::kernels {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// Inputs for a format. Those whose scale covers the tensor are single rows, so that each row has its own scale.
std::vector<Tensor> inputs_for(Scaling scaling, at::ScalarType type) {
  const bool one_scale = scaling == Scaling::tensor || scaling == Scaling::nv;
  const Tensor all = at::cat({finite_rows(), rows_with_lost_numbers()}).to(type);
  if (!one_scale) return {all};
  std::vector<Tensor> inputs = {all.narrow(0, 440, 9)};
  for (int64_t i = 0; i < all.size(0); ++i) inputs.push_back(all.narrow(0, i, 1));
  return inputs;
}

std::vector<float> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.to(at::kFloat).contiguous();
  return {wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel()};
}

// Bits are compared, except for those of NaN.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return false;
    if (!std::isnan(a[i]) && std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return false;
  }
  return true;
}

std::vector<float> in_type(const std::vector<float>& values, at::ScalarType type) {
  const Tensor wide = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(wide.mutable_data_ptr<float>(), values.data(), values.size() * sizeof(float));
  return numbers(wide.to(type));
}

// Returns the part that differs from the definition; empty: none does.
std::string difference(const Tensor& x, QuantizedFormat format) {
  const StandardQuantized expected = standard_quantized(numbers(x), x.size(0), format);
  const Tensor rounded = rounded_to(x, format, Rounding::nearest_even, {});
  if (rounded.scalar_type() != x.scalar_type() || rounded.sizes() != x.sizes()) return "dtype or sizes";
  if (!same(numbers(rounded), in_type(expected.decoded, x.scalar_type()))) return "rounded_to";
  const Quantized found = quantize(x, format, Rounding::nearest_even, {});
  if (!same(numbers(found.codes), std::vector<float>(expected.codes.begin(), expected.codes.end()))) return "codes";
  if (!same(numbers(found.scales), expected.scales)) return "scales";
  if (format.scaling == Scaling::nv && !same(numbers(found.tensor_scale), {expected.tensor_scale}))
    return "tensor_scale";
  for (const at::ScalarType type : kTypes) {
    if (!same(numbers(dequantize(found, format, type)), in_type(expected.decoded, type))) return "dequantize";
  }
  return "";
}

TEST(Quantize, EqualsTheStandards) {
  for (const auto& [format_name, format] : kNamedFormats) {
    for (const at::ScalarType type : kTypes) {
      int64_t row = 0;
      for (const Tensor& x : inputs_for(format.scaling, type)) {
        EXPECT_EQ(difference(x, format), "") << format_name << " " << name(format.element) << " "
                                             << name(format.scaling) << " " << type << ", input " << row;
        ++row;
      }
    }
  }
}

// The values differ, not only codes or scales.
TEST(Quantize, WrongVariantsAreRefused) {
  for (const auto& [format_name, format] : kNamedFormats) {
    for (const at::ScalarType type : kTypes) {
      const std::vector<Tensor> inputs = inputs_for(format.scaling, type);
      for (size_t i = 1; i < kMutationNames.size(); ++i) {
        const auto mutation = static_cast<Mutation>(i);
        if (!applies(mutation, format)) continue;
        const bool refused = std::ranges::any_of(inputs, [&](const Tensor& x) {
          const Quantized found = quantize(x, format, Rounding::nearest_even, {});
          return !same(numbers(dequantize(found, format, at::kFloat)),
                       standard_quantized(numbers(x), x.size(0), format, mutation).decoded);
        });
        EXPECT_TRUE(refused) << name(mutation) << " of " << format_name << " " << name(format.element) << " " << type;
      }
    }
  }
}

TEST(Quantize, DecodesFiniteNumbersToFiniteNumbers) {
  const Tensor x = finite_rows();
  for (const auto& [format_name, format] : kNamedFormats) {
    for (int64_t i = 0; i < x.size(0); ++i) {
      const Tensor rounded = rounded_to(x.narrow(0, i, 1), format, Rounding::nearest_even, {});
      EXPECT_TRUE(rounded.isfinite().all().item<bool>())
          << format_name << " " << name(format.element) << " " << name(format.scaling) << ", row " << i;
    }
  }
}

TEST(Quantize, TakesRowsOfAnyStrides) {
  const Tensor transposed = finite_rows().narrow(0, 300, 256).t(), contiguous = transposed.contiguous();
  for (const auto& [_, format] : kNamedFormats) {
    const Tensor rounded = rounded_to(transposed, format, Rounding::nearest_even, {});
    EXPECT_TRUE(rounded.is_contiguous());
    EXPECT_TRUE(rounded.equal(rounded_to(contiguous, format, Rounding::nearest_even, {})));
  }
}

TEST(Quantize, TakesNoRowsAndNoColumns) {
  for (const auto& [_, format] : kNamedFormats) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0, 128}, {3, 0}}) {
      const Tensor x = at::empty(sizes, at::kBFloat16);
      EXPECT_EQ(rounded_to(x, format, Rounding::nearest_even, {}).sizes(), x.sizes());
      const Quantized found = quantize(x, format, Rounding::nearest_even, {});
      EXPECT_EQ(found.codes.sizes(), x.sizes());
      EXPECT_EQ(dequantize(found, format, at::kHalf).sizes(), x.sizes());
    }
  }
}

TEST(Quantize, RecordsNothingForAutograd) {
  const Tensor x = at::ones({2, 128}, at::kFloat).requires_grad_();
  for (const auto& [_, format] : kNamedFormats) {
    EXPECT_FALSE(rounded_to(x * 2, format, Rounding::nearest_even, {}).requires_grad());
  }
}

// Tracing runs ops on tensors without values.
TEST(Quantize, RunsWithoutValues) {
  const Tracing tracing(at::kCPU);
  const Tensor x = at::empty({2, 128}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  const Tensor key = at::empty({1}, at::TensorOptions(at::kLong).device(at::kMeta));
  for (const auto& [_, format] : kNamedFormats) {
    EXPECT_EQ(rounded_to(x, format, Rounding::nearest_even, {}).sizes(), x.sizes());
    const Quantized found = quantize(x, format, Rounding::stochastic, key);
    EXPECT_EQ(dequantize(found, format, at::kHalf).sizes(), x.sizes());
  }
}

}  // namespace
}  // namespace strata::kernels
