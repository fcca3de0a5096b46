// SPDX-License-Identifier: MIT
// GPUs give the bits of CPUs, for which tests/kernels/quantize/quantize_test.cc has the proof.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/quantize/quantize.h"
#include "tests/kernels/quantize/hard_rows.h"

namespace strata::kernels {
namespace {

// Bits of fp32 and 16-bit numbers are compared, except for those of NaN.
bool same(const Tensor& gpu, const Tensor& cpu) {
  const Tensor found = gpu.cpu();
  return found.isnan().equal(cpu.isnan()) && found.nan_to_num(0).equal(cpu.nan_to_num(0)) &&
         found.nan_to_num(0).signbit().equal(cpu.nan_to_num(0).signbit());
}

void expect_same(const Tensor& x, QuantizedFormat format, Rounding rounding) {
  const Tensor key = rounding == Rounding::stochastic ? at::full({1}, 77, at::kLong) : Tensor();
  const Tensor gpu_key = key.defined() ? key.cuda() : Tensor(), gpu_x = x.cuda();
  EXPECT_TRUE(same(rounded_to(gpu_x, format, rounding, gpu_key), rounded_to(x, format, rounding, key)));
  const Quantized gpu = quantize(gpu_x, format, rounding, gpu_key), cpu = quantize(x, format, rounding, key);
  EXPECT_TRUE(gpu.codes.cpu().equal(cpu.codes));
  EXPECT_TRUE(same(gpu.scales, cpu.scales));
  EXPECT_TRUE(!cpu.tensor_scale.defined() || same(gpu.tensor_scale, cpu.tensor_scale));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(same(dequantize(gpu, format, type), dequantize(cpu, format, type)));
  }
}

TEST(QuantizeOnGpu, GivesTheBitsOfTheCpu) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor finite = finite_rows(), all = at::cat({finite, rows_with_lost_numbers()});
  // The scales of a tensor differ for each of these; the last ones have rows with numbers that are lost.
  std::vector<Tensor> inputs = {all, finite, finite.narrow(0, 440, 9)};
  for (int64_t row = 0; row < all.size(0); row += 17) inputs.push_back(all.narrow(0, row, 1));
  for (const auto& [format_name, format] : kNamedFormats) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        SCOPED_TRACE(std::string(format_name) + " " + std::string(name(format.element)) + " " +
                     std::string(name(format.scaling)) + " " + c10::toString(type) + ", input " + std::to_string(i));
        expect_same(inputs[i].to(type), format, Rounding::nearest_even);
        expect_same(inputs[i].to(type), format, Rounding::stochastic);
      }
    }
  }
}

TEST(QuantizeOnGpu, GivesTheBitsOfTheCpuWithDelayedScales) {
  ASSERT_TRUE(at::hasCUDA());
  const Tensor all = at::cat({finite_rows(), rows_with_lost_numbers()});
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const double past : {0.0, 1e-3, 2.5, 1e4}) {
        for (int64_t row = 0; row < all.size(0); row += 17) {
          const Tensor x = all.narrow(0, row, 1).to(type);
          const DelayedScale cpu = {at::full({1}, past, at::kFloat), at::full({1}, 0.5, at::kFloat)};
          const DelayedScale gpu = {cpu.past.cuda(), cpu.present.cuda()};
          const QuantizedFormat format = {element, Scaling::tensor};
          EXPECT_TRUE(same(rounded_to(x.cuda(), format, Rounding::nearest_even, {}, gpu),
                           rounded_to(x, format, Rounding::nearest_even, {}, cpu)))
              << name(element) << " " << type << " " << past << ", row " << row;
          EXPECT_TRUE(same(gpu.present, cpu.present)) << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
