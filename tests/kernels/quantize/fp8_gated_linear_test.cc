// SPDX-License-Identifier: MIT
// The gated MLP in FP8 without a GPU: tensors without values take its way, and show its calls, shapes and memory. Its
// numbers are those of fp8_gated_linear_gpu_test.cc.
#include "kernels/linear/fp8_gated_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/linear/fp8_linear.h"
#include "kernels/runtime/call_observer.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};
constexpr int64_t kTokens = 2048, kInputs = 256, kFeedForward = 1024, kProductBytes = kTokens * 2 * kFeedForward * 2;

Tensor leaf(at::IntArrayRef sizes) {
  return at::empty(sizes, at::device(at::kMeta).dtype(at::kBFloat16)).requires_grad_();
}

struct Recorder : CallObserver {
  void call(const OpShape& shape, Level level, bool backward, at::ScalarType dtype) override {
    EXPECT_EQ(dtype, at::kBFloat16);
    calls.push_back(std::string(shape.op()) + "/" + std::string(name(level)) + (backward ? "/backward " : " ") +
                    shape.text());
  }
  std::vector<std::string> calls;
};

struct Measured {
  std::vector<std::string> calls;
  int64_t saved = 0, most_of_forward = 0, most_of_backward = 0;  // bytes besides inputs and weights
};

DelayedScales delayed_scales() {
  const auto scale = [] {
    const Tensor number = at::empty({1}, at::device(at::kMeta).dtype(at::kFloat));
    return DelayedScale{number, number};
  };
  return {scale(), scale(), scale()};
}

Measured run(bool in_parts, bool keep_graph = false, const DelayedScales& scales = {}) {
  Tracing tracing(c10::kCUDA);
  Recorder recorder;
  const ObservedCalls observed(recorder);
  const Tensor x = leaf({kTokens, kInputs});
  const Fp8Layer up = {leaf({2 * kFeedForward, kInputs}), leaf({2 * kFeedForward}), kFp8, scales};
  const Fp8Layer down = {leaf({kInputs, kFeedForward}), leaf({kInputs}), kFp8, scales};
  Measured run;
  const int64_t before = tracing.current_bytes();
  tracing.reset_peak();
  const auto forward = [&] {
    if (in_parts) return fp8_linear(swiglu(fp8_linear(x, up), Activation::silu, Level::cuda), down);
    const auto [y, amax] = fp8_gated_linear(x, up, Activation::silu);
    return fp8_linear(y, down, amax);
  };
  const Tensor y = forward();
  run.saved = tracing.current_bytes() - before;
  run.most_of_forward = tracing.peak_bytes() - before;
  tracing.reset_peak();
  y.backward(at::empty(y.sizes(), y.options().requires_grad(false)), keep_graph);
  run.most_of_backward = tracing.peak_bytes() - before;
  run.calls = recorder.calls;
  for (const Tensor& one : {x, up.weight, up.bias, down.weight, down.bias}) EXPECT_EQ(one.grad().sizes(), one.sizes());
  return run;
}

TEST(Fp8GatedLinear, ItsCallsAreThoseOfItsParts) {
  const std::vector<std::string> expected = {
      "linear/cuda 2048x256->2048 bias", "swiglu/cuda 2048x1024",
      "linear/cuda 2048x1024->256 bias", "linear/cuda/backward 2048x1024->256 bias",
      "swiglu/cuda/backward 2048x1024",  "linear/cuda/backward 2048x256->2048 bias"};
  EXPECT_EQ(run(/*in_parts=*/false).calls, expected);
  EXPECT_EQ(run(/*in_parts=*/true).calls, expected);
  for (const bool in_parts : {false, true}) {
    EXPECT_EQ(run(in_parts, /*keep_graph=*/false, delayed_scales()).calls, expected);
  }
}

// An evaluation records nothing, and a delayed scale is known, so no kernel looks for a magnitude that nobody reads.
TEST(Fp8GatedLinear, FindsAMagnitudeOnlyForWhoReadsIt) {
  Tracing tracing(c10::kCUDA);
  const Tensor x = leaf({kTokens, kInputs});
  const auto has_amax = [&](const DelayedScales& scales) {
    return fp8_gated_linear(x, {leaf({2 * kFeedForward, kInputs}), {}, kFp8, scales}, Activation::silu).amax.defined();
  };
  EXPECT_TRUE(has_amax({}));
  EXPECT_TRUE(has_amax(delayed_scales()));
  const at::NoGradGuard no_gradients;
  EXPECT_TRUE(has_amax({}));
  EXPECT_FALSE(has_amax(delayed_scales()));
}

// It saves as much as its parts, and its backward needs no more memory: most is there at a product with its workspace.
// The gradient of the first product takes the memory of that product unless the graph is kept.
TEST(Fp8GatedLinear, TakesNoMoreMemoryThanItsParts) {
  const Measured parts = run(/*in_parts=*/true), together = run(/*in_parts=*/false);
  constexpr int64_t kSmall = 64 << 10;  // partial maxima of operands
  EXPECT_LE(together.saved, parts.saved + kSmall);
  EXPECT_LE(together.most_of_forward, parts.most_of_forward + kSmall);
  EXPECT_LE(together.most_of_backward, parts.most_of_backward);
  EXPECT_GE(run(/*in_parts=*/false, /*keep_graph=*/true).most_of_backward,
            together.most_of_backward + kProductBytes / 2);
}

TEST(Fp8GatedLinear, RefusesWhatDoesNotFit) {
  Tracing tracing(c10::kCUDA);
  const auto refused = [](const Tensor& x, const Fp8Layer& layer, Activation kind, const std::string& part) {
    try {
      fp8_gated_linear(x, layer, kind);
      ADD_FAILURE() << "expected: " << part;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos) << error.what();
    }
  };
  const Tensor x = leaf({32, 64}), weight = leaf({96, 64});
  refused(leaf({32, 48}), {weight, {}, kFp8}, Activation::silu, "linear/cuda: x is [32, 48] and weight is [96, 64]");
  refused(x, {weight, leaf({48}), kFp8}, Activation::silu, "linear/cuda: bias is [48], expected [96]");
  refused(x, {weight, {}, kFp8}, Activation::relu, "swiglu/cuda: kind is relu");
}

}  // namespace
}  // namespace strata::kernels
