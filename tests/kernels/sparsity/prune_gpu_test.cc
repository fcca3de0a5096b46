// SPDX-License-Identifier: MIT
// The kernel that prunes a weight on a GPU, against the operators of LibTorch that prune it on the CPU.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/sparsity/prune.h"
#include "tests/kernels/quantize/gpu_checks.h"

namespace strata::kernels {
namespace {

using at::Tensor;

// The kernel has the bits of the CPU, which tests/modules/sparse_linear_test.cc compares with a sort.
TEST(PruneKernel, HasTheBitsOfTheCpu) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(23);
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 1.5f, -6e-8f, infinity, -infinity, nan, -nan};
  std::vector<float> groups;
  for (size_t i = 0; i < 10000; ++i) {
    for (const size_t place : {1000, 100, 10, 1}) groups.push_back(values[i / place % 10]);
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor wide = at::cat({at::tensor(groups).view({250, 160}), (at::randn({34, 160}) * 2).round()}).to(type);
    const Tensor odd = at::randn({33 * 12 + 1}).to(type);
    for (const Tensor& weight : {wide, wide.t().narrow(1, 3, 240), wide.narrow(0, 6, 256), wide.narrow(1, 3, 12),
                                 wide.narrow(0, 0, 0), odd.narrow(0, 1, 33 * 12).view({33, 12})}) {
      // Copies to a GPU do not keep addresses and strides, so these are made there again.
      const Tensor gpu = at::empty_strided(weight.sizes(), weight.strides(), weight.options().device(at::kCUDA));
      gpu.copy_(weight);
      EXPECT_TRUE(same_bits(pruned(gpu).cpu(), pruned(weight).contiguous())) << type << " " << weight.sizes();
      EXPECT_TRUE(kept_of_four(gpu).cpu().equal(kept_of_four(weight))) << type << " " << weight.sizes();
      if (weight.size(0) % 4 != 0) continue;
      const auto transposable = [](const Tensor& given) { return kept_of_four(given, PruneMask::transposable).cpu(); };
      EXPECT_TRUE(transposable(gpu).equal(transposable(weight))) << type << " " << weight.sizes();
    }
    const Tensor gpu = odd.cuda().narrow(0, 1, 33 * 12).view({33, 12});
    EXPECT_TRUE(same_bits(pruned(gpu).cpu(), pruned(odd.narrow(0, 1, 33 * 12).view({33, 12})))) << type;
  }
}

}  // namespace
}  // namespace strata::kernels
