// SPDX-License-Identifier: MIT
// Checks that every call of an op reports its shape to an observer: once in the forward, and once in the backward.
#include "kernels/runtime/call_observer.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/op_proofs.h"
#include "kernels/proof/evaluation.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_shape.h"

namespace strata::kernels {
namespace {

struct Call {
  OpShape shape;
  Level level;
  bool backward;
  at::ScalarType dtype;
};

struct Recorder : CallObserver {
  void call(const OpShape& shape, Level level, bool backward, at::ScalarType dtype) override {
    calls.push_back({shape, level, backward, dtype});
  }
  std::vector<Call> calls;
};

class CallObservers : public testing::TestWithParam<OpCase> {};

TEST_P(CallObservers, AreToldTheShapeOfTheCase) {
  const OpCase& op_case = GetParam();
  Recorder recorder;
  {
    const ObservedCalls observed(recorder);
    evaluate(op_case, Level::aten, {});
  }
  ASSERT_EQ(recorder.calls.size(), op_case.differentiable ? 2u : 1u);
  for (size_t i = 0; i < recorder.calls.size(); ++i) {
    const auto& [shape, level, backward, dtype] = recorder.calls[i];
    EXPECT_TRUE(shape == op_case.shape) << shape.text() << ", expected " << op_case.shape.text();
    EXPECT_EQ(shape.text(), op_case.shape.text());
    EXPECT_EQ(level, Level::aten);
    EXPECT_EQ(backward, i == 1);
    EXPECT_EQ(dtype, at::kDouble);
  }
}

// If autograd differentiates the formula, the op has no backward of its own.
TEST_P(CallObservers, AreToldTheForwardOfTheFormula) {
  Recorder recorder;
  {
    const ObservedCalls observed(recorder);
    evaluate(GetParam(), Level::torchscript, {});
  }
  ASSERT_FALSE(recorder.calls.empty());
  EXPECT_TRUE(recorder.calls[0].shape == GetParam().shape) << recorder.calls[0].shape.text();
  EXPECT_FALSE(recorder.calls[0].backward);
}

INSTANTIATE_TEST_SUITE_P(Ops, CallObservers, testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ObservedCalls, EndWithTheGuard) {
  const at::Tensor x = at::ones({2, 4}), weight = at::ones({4});
  Recorder outer, inner;
  {
    const ObservedCalls outside(outer);
    rms_norm(x, weight, 1e-5, Level::aten);
    {
      const ObservedCalls inside(inner);
      rms_norm(x, weight, 1e-5, Level::aten);
    }
    rms_norm(x, weight, 1e-5, Level::aten);
  }
  EXPECT_FALSE(calls_are_observed());
  rms_norm(x, weight, 1e-5, Level::aten);
  EXPECT_EQ(outer.calls.size(), 2u);
  EXPECT_EQ(inner.calls.size(), 1u);
}

TEST(ObservedCalls, RefuseTheShapeOfAnotherOp) {
  Recorder recorder;
  const ObservedCalls observed(recorder);
  EXPECT_THROW(report_call("linear", RmsNormShape{.rows = 1, .width = 1}, Level::aten, false, at::kFloat), c10::Error);
}

}  // namespace
}  // namespace strata::kernels
