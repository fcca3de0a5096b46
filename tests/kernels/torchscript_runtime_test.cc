// SPDX-License-Identifier: MIT
// Checks that calls of a formula on tensors without values do not change the bits of its other calls. TorchScript
// records the first call of a function and runs another graph from the second call on, which rounds gradients
// differently.
#include "kernels/runtime/torchscript_runtime.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

constexpr char kSource[] = R"(
import torch

def gated(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x) * factor
)";

struct Inputs {
  Tensor x, factor;
};

using Results = std::array<Tensor, 3>;  // the value and both gradients

Results call(const Formula& formula, const Inputs& inputs) {
  const Tensor x = inputs.x.detach().requires_grad_(), factor = inputs.factor.detach().requires_grad_();
  const Tensor y = formula(x, factor);
  at::sum(y).backward();
  return {y.detach(), x.grad(), factor.grad()};
}

void call_traced(const Formula& formula, const Inputs& inputs) {
  const Tracing tracing(c10::kCPU);
  call(formula, {at::empty_like(inputs.x, at::kMeta), at::empty_like(inputs.factor, at::kMeta)});
}

bool have_equal_bits(const Results& a, const Results& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const Tensor& x, const Tensor& y) { return at::equal(x, y); });
}

TEST(TorchscriptRuntime, TracedCallsDoNotChangeTheBitsOfOthers) {
  at::manual_seed(1);
  const Inputs inputs = {at::randn({64, 96}), at::randn({96})};
  const Formula alone(kSource, "gated"), traced(kSource, "gated");
  const Results first = call(alone, inputs), second = call(alone, inputs), third = call(alone, inputs);
  EXPECT_FALSE(have_equal_bits(first, second)) << "TorchScript optimized nothing, so this test finds nothing";
  for (const Results& expected : {first, second, third}) {
    call_traced(traced, inputs);
    EXPECT_TRUE(have_equal_bits(call(traced, inputs), expected));
  }
}

}  // namespace
}  // namespace strata::kernels
