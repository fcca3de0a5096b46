// SPDX-License-Identifier: MIT
// Times of linear layers on the CPU, where a format is emulated. So a layer in a format takes longer.
#include "tools/plan/linear_timer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace strata::tools {
namespace {

using kernels::Activation;
using kernels::LinearShape;
using modules::LinearFormat;
using modules::LinearFormatsConfig;
using modules::LinearScaling;

trainer::LinearTimes times(const LinearShape& shape, const LinearFormatsConfig* formats) {
  at::set_num_threads(1);  // with more, a product waits for threads that have no core while other tests run
  const modules::KernelsConfig kernels;
  return time_linear("blocks.1.mlp.up", shape, kernels, formats, at::kFloat, at::kCPU);
}

// Rounding of 256 x 64 numbers takes several times as long as the product.
TEST(LinearTimer, CountsTheKernelsThatMakeOperands) {
  for (const LinearShape& shape : {LinearShape{256, 64, 64}, {256, 64, 32, Activation::gelu_tanh, true}}) {
    for (const LinearScaling scaling : {LinearScaling::current, LinearScaling::row, LinearScaling::delayed}) {
      const LinearFormatsConfig fp8{.format = LinearFormat::fp8, .scaling = scaling};
      const trainer::LinearTimes plain = times(shape, nullptr), rounded = times(shape, &fp8);
      EXPECT_GT(plain.forward, 0);
      EXPECT_GT(plain.backward, 0);
      EXPECT_GT(rounded.forward, 1.5 * plain.forward) << shape.text();
      EXPECT_GT(rounded.backward, 1.5 * plain.backward) << shape.text();
    }
  }
}

TEST(LinearTimer, TimesALayerThatIsKeptWithoutTheFormat) {
  const LinearShape shape{256, 64, 64};
  const LinearFormatsConfig fp8{.format = LinearFormat::fp8}, kept{.format = LinearFormat::fp8, .keep = {"mlp.up"}};
  EXPECT_LT(1.5 * times(shape, &kept).sum(), times(shape, &fp8).sum());
}

}  // namespace
}  // namespace strata::tools
