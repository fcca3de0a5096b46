// SPDX-License-Identifier: MIT
// The gated MLP in FP8, whose kernels find the largest magnitudes of the operands that follow, has the bits of its
// three parts one after another. The last case prints the times of both.
#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear/fp8_gated_linear.h"
#include "kernels/linear/fp8_linear.h"
#include "kernels/runtime/gradient_destination.h"
#include "tests/kernels/quantize/gpu_checks.h"

namespace strata::kernels {
namespace {

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};

struct Sizes {
  std::vector<int64_t> tokens;
  int64_t inputs, feed_forward, outputs;
};
const std::vector<Sizes> kSizes = {{{1}, 16, 16, 16},         {{17}, 48, 80, 32},       {{3, 13}, 128, 256, 144},
                                   {{2, 1500}, 256, 768, 64}, {{1000}, 512, 1408, 512}, {{4096}, 1024, 2048, 1024}};

struct Mlp {
  Mlp(const Sizes& sizes, at::ScalarType type, bool has_biases) {
    at::manual_seed(21);
    const auto made = [&](std::vector<int64_t> size) { return at::randn(size).to(type).cuda().requires_grad_(); };
    std::vector<int64_t> shape = sizes.tokens;
    shape.push_back(sizes.inputs);
    const Tensor x = made(shape);
    shape.back() = sizes.outputs;
    grad_y = made(shape).detach();
    const auto bias = [&](int64_t width) { return has_biases ? made({width}) : Tensor(); };
    leaves = {x, made({2 * sizes.feed_forward, sizes.inputs}), bias(2 * sizes.feed_forward),
              made({sizes.outputs, sizes.feed_forward}), bias(sizes.outputs)};
  }
  Tensor operator()(bool in_parts, Activation kind = Activation::silu) const {
    const Fp8Layer up = {leaves[1], leaves[2], kFp8, scales[0]}, down = {leaves[3], leaves[4], kFp8, scales[1]};
    if (in_parts) return fp8_linear(swiglu(fp8_linear(leaves[0], up), kind, Level::cuda), down);
    const auto [y, amax] = fp8_gated_linear(leaves[0], up, kind);
    return fp8_linear(y, down, amax);
  }
  // Takes the gradients of all leaves.
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> result;
    for (const Tensor& leaf : leaves) {
      result.push_back(leaf.defined() ? leaf.grad() : Tensor());
      if (leaf.defined()) leaf.mutable_grad() = Tensor();
    }
    return result;
  }

  // Returns the largest magnitudes that were recorded since the last call.
  std::vector<float> recorded() const {
    std::vector<float> result;
    for (const DelayedScales& layer : scales) {
      for (const DelayedScale& scale : {layer.x, layer.weight, layer.gradient}) {
        result.push_back(scale.present.item<float>());
        scale.present.zero_();
      }
    }
    return result;
  }

  std::array<DelayedScales, 2> scales;  // scales of both layers
  std::vector<Tensor> leaves;           // x, weight and bias of the first layer, weight and bias of the second
  Tensor grad_y;
};

void expect_bits_of_parts(const Mlp& mlp, Activation kind = Activation::silu) {
  const Tensor expected = mlp(/*in_parts=*/true, kind);
  expected.backward(mlp.grad_y);
  const std::vector<Tensor> expected_gradients = mlp.gradients();
  const Tensor y = mlp(/*in_parts=*/false, kind);
  y.backward(mlp.grad_y);
  const std::vector<Tensor> gradients = mlp.gradients();
  EXPECT_TRUE(same_bits(y.detach(), expected.detach()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(same_bits(gradients[i], expected_gradients[i])) << "leaf " << i;
    EXPECT_EQ(gradients[i].defined(), mlp.leaves[i].defined() && mlp.leaves[i].requires_grad()) << "leaf " << i;
  }
  const c10::InferenceMode inference;
  Mlp detached = mlp;
  for (Tensor& leaf : detached.leaves) leaf = leaf.defined() ? leaf.detach() : leaf;
  EXPECT_TRUE(same_bits(detached(/*in_parts=*/false, kind), expected.detach()));
}

TEST(Fp8GatedLinear, HasTheBitsOfItsParts) {
  ASSERT_TRUE(at::hasCUDA());
  for (const Sizes& sizes : kSizes) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      for (const Activation kind : {Activation::silu, Activation::gelu_tanh}) {
        for (const bool has_biases : {false, true}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::string(name(kind)) + " " +
                       std::to_string(sizes.tokens.back()) + " tokens, " + std::to_string(sizes.inputs) + " -> " +
                       std::to_string(sizes.feed_forward) + (has_biases ? " with biases" : ""));
          expect_bits_of_parts(Mlp(sizes, type, has_biases), kind);
        }
      }
    }
  }
}

TEST(Fp8GatedLinear, HasTheBitsOfItsPartsWithDelayedScales) {
  for (const double past : {0.0, 1.5, 30.0}) {  // 0: no history
    SCOPED_TRACE(past);
    Mlp mlp({{2, 150}, 256, 768, 64}, at::kBFloat16, /*has_biases=*/true);
    const auto one = [](double number) { return at::full({1}, number, at::device(at::kCUDA).dtype(at::kFloat)); };
    for (DelayedScales& layer : mlp.scales) layer = {{one(past), one(0)}, {one(past), one(0)}, {one(past), one(0)}};
    expect_bits_of_parts(mlp);
    mlp.recorded();
    mlp(/*in_parts=*/true).backward(mlp.grad_y);
    const std::vector<float> part_amaxes = mlp.recorded();
    mlp(/*in_parts=*/false).backward(mlp.grad_y);
    EXPECT_EQ(mlp.recorded(), part_amaxes);
    for (const float largest : part_amaxes) EXPECT_GT(largest, 0);
  }
}

TEST(Fp8GatedLinear, GivesOnlyTheGradientsThatAreNeeded) {
  for (unsigned needed = 1; needed < 32; ++needed) {
    SCOPED_TRACE(needed);
    Mlp mlp({{39}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/true);
    for (size_t i = 0; i < mlp.leaves.size(); ++i) mlp.leaves[i].requires_grad_((needed >> i & 1) != 0);
    expect_bits_of_parts(mlp);
  }
}

TEST(Fp8GatedLinear, LostNumbersAreSeen) {
  for (const float lost : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const int where : {0, 1, 3}) {
      const Mlp mlp({{39}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/false);
      mlp.leaves[where].detach()[13][7] = lost;
      EXPECT_TRUE(mlp(/*in_parts=*/false).isnan().all().item<bool>());
      expect_bits_of_parts(mlp);
    }
    Mlp mlp({{39}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/false);
    mlp.grad_y[38][63] = lost;
    expect_bits_of_parts(mlp);
  }
  // Products of finite numbers that overflow.
  Mlp mlp({{39}, 128, 256, 64}, at::kHalf, /*has_biases=*/false);
  mlp.leaves[0].detach().mul_(4000);
  EXPECT_FALSE(mlp(/*in_parts=*/false).isfinite().all().item<bool>());
  expect_bits_of_parts(mlp);
}

TEST(Fp8GatedLinear, GradientsGoToTheirDestinations) {
  const Mlp mlp({{39}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/true);
  const auto written = [&](bool in_parts, at::ScalarType type) {
    std::vector<Tensor> buffers;
    for (size_t i = 1; i < mlp.leaves.size(); ++i) {
      const Tensor& leaf = mlp.leaves[i];
      const Tensor into = at::ones(leaf.sizes(), leaf.options().dtype(type).requires_grad(false));
      buffers.push_back(into);
      set_gradient_destination(leaf, [into, calls = 0]() mutable { return GradientDestination{into, calls++ > 0}; });
    }
    for (int step = 0; step < 2; ++step) mlp(in_parts).backward(mlp.grad_y);
    for (size_t i = 1; i < mlp.leaves.size(); ++i) EXPECT_FALSE(mlp.leaves[i].grad().defined());
    mlp.gradients();
    return buffers;
  };
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const std::vector<Tensor> expected = written(/*in_parts=*/true, type), found = written(/*in_parts=*/false, type);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(found[i], expected[i])) << i;
  }
}

// The gradient of the product takes the memory of the product only in the last backward.
TEST(Fp8GatedLinear, AKeptGraphGivesTheSameGradientsAgain) {
  const Mlp mlp({{39}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/true);
  const Tensor y = mlp(/*in_parts=*/false);
  std::vector<Tensor> first;
  for (const bool keep : {true, true, false}) {
    y.backward(mlp.grad_y, /*retain_graph=*/keep);
    const std::vector<Tensor> gradients = mlp.gradients();
    if (first.empty()) first = gradients;
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(gradients[i], first[i])) << i;
  }
}

TEST(Fp8GatedLinear, TakesNoMoreMemoryThanItsParts) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const Mlp mlp({{8192}, 1024, 4096, 1024}, at::kBFloat16, /*has_biases=*/false);
  const auto most = [&](bool in_parts) {
    const auto bytes = [] {
      const auto stats = allocator::getDeviceStats(0);
      return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    };
    mlp(in_parts).backward(mlp.grad_y);  // libraries allocate their own memory in the first call
    mlp.gradients();
    const int64_t before = bytes().current;
    allocator::resetPeakStats(0);
    mlp(in_parts).backward(mlp.grad_y);
    mlp.gradients();
    return bytes().peak - before;
  };
  const int64_t parts = most(/*in_parts=*/true), together = most(/*in_parts=*/false);
  std::printf("%.1f MiB, in parts %.1f MiB\n", together * 0x1p-20, parts * 0x1p-20);
  EXPECT_LE(together, parts + (1 << 20));
}

TEST(Fp8GatedLinear, NoTokensAreNoError) {
  expect_bits_of_parts(Mlp({{0}, 128, 256, 64}, at::kBFloat16, /*has_biases=*/true));
}

// Llama 3.2 1B is faster. In Llama 3.1 8B products take nearly all of the time, and an H200 at the limit of its power
// computes them no faster when it has less else to do.
TEST(Fp8GatedLinear, IsFasterThanItsPartsWhereProductsLeaveTimeAndElseAsFast) {
  ASSERT_TRUE(at::hasCUDA());
  const std::pair<Sizes, double> all[] = {{{{32768}, 2048, 8192, 2048}, 1}, {{{16384}, 4096, 14336, 4096}, 1.02}};
  for (const auto& [sizes, most] : all) {
    const Mlp mlp(sizes, at::kBFloat16, /*has_biases=*/false);
    const auto step = [&mlp](bool in_parts) -> std::function<void()> {
      return [&mlp, in_parts] {
        mlp(in_parts).backward(mlp.grad_y);
        mlp.gradients();
      };
    };
    step(true)();
    step(false)();  // products have chosen their algorithms
    const std::vector<double> seconds = seconds_in_turn({step(true), step(false)});
    const double parts = seconds[0], together = seconds[1];
    std::printf("%ld tokens, %ld -> %ld: forward and backward %.3f ms, in parts %.3f ms\n",
                static_cast<long>(sizes.tokens[0]), static_cast<long>(sizes.inputs),
                static_cast<long>(sizes.feed_forward), together * 1e3, parts * 1e3);
    EXPECT_LT(together, most * parts);
  }
}

}  // namespace
}  // namespace strata::kernels
