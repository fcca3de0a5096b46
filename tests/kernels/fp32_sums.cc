// SPDX-License-Identifier: MIT
// Products of 16-bit matrices add in fp32 at every level, and a bias is added before the result is rounded.
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/proof/agreement.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

class Fp32Sums : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (const char* reason = why_not_run(GetParam())) GTEST_SKIP() << reason;
  }
};

// Level torchscript is left out, because TorchScript makes a product and a sum of addmm, and rounds both.
std::vector<Level> fusing_levels() {
  std::vector<Level> levels = levels_here();
  std::erase(levels, Level::torchscript);
  return levels;
}

// Returns the same values on the device, on request one element after an aligned address.
Tensor on_device(const Tensor& tensor, bool is_aligned) {
  const Tensor copy = tensor.to(test_device());
  return is_aligned ? copy : unaligned(copy);
}

// Products around 256 and a bias of -256 leave numbers around 1. A product that is rounded to bf16 before the bias is
// added is off by up to 1, and one that is rounded to fp16 by up to 0.125.
TEST_P(Fp32Sums, ABiasMayCancelTheProduct) {
  ASSERT_NE(LinearOp::kKernels.slot(GetParam()).forward, nullptr);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    for (const int64_t width : {21, 24}) {
      for (const bool is_aligned : {true, false}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + ", width " + std::to_string(width) +
                     (is_aligned ? "" : ", unaligned"));
        at::manual_seed(1);
        Tensor x = at::randn({40, 33}), weight = at::randn({width, 33}).div_(std::sqrt(33.0));
        x.select(1, 0).fill_(16.0);
        weight.select(1, 0).fill_(16.0);
        x = x.to(dtype);
        weight = weight.to(dtype);
        const Tensor bias = at::full({width}, -256.0, dtype);
        const Tensor expected = at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
        const Tensor y = linear(on_device(x, is_aligned), on_device(weight, is_aligned), on_device(bias, is_aligned),
                                Activation::none, GetParam());
        const double error = largest(y.cpu().to(at::kDouble) - expected);
        EXPECT_LE(error, 4 * unit_roundoff(dtype) * largest(expected));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Fp32Sums, testing::ValuesIn(fusing_levels()),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace strata::kernels
