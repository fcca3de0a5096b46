// SPDX-License-Identifier: MIT
// swiglu with the largest magnitude of its result: the bits of swiglu, and the largest number of what was stored. The
// last case prints the times of the kernels with it and without.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/amax.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/swiglu/swiglu.h"
#include "tests/kernels/quantize/gpu_checks.h"

namespace strata::kernels {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};
constexpr Activation kKinds[] = {Activation::silu, Activation::gelu_tanh};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, at::device(at::kCUDA).dtype(at::kFloat)).to(type);
}

// The largest magnitude of the numbers in a tensor as fp32 bits. NaN is above infinity.
int64_t largest_bits(const Tensor& x) { return x.to(at::kFloat).abs().view(at::kInt).max().item<int64_t>(); }

void expect_largest(const Tensor& amax, const Tensor& x) {
  constexpr int64_t kBitsOfInfinity = 0x7f800000;
  ASSERT_EQ(amax.sizes(), at::IntArrayRef({kAmaxPartials}));
  EXPECT_GE(amax.min().item<int64_t>(), 0);
  const int64_t found = amax.max().item<int64_t>(), expected = largest_bits(x);
  if (expected > kBitsOfInfinity) {
    EXPECT_GT(found, kBitsOfInfinity);  // a NaN of any bits
  } else {
    EXPECT_EQ(found, expected);
  }
}

// Garbage from here on is what an unwritten partial result has: memory of its size, which is free again.
void leave_garbage() {
  std::vector<Tensor> blocks;
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(at::empty({kAmaxPartials}, at::device(at::kCUDA).dtype(at::kInt)).fill_(-1));
  }
}

void expect_swiglu(const Tensor& gate_up, const Tensor& grad_y, Activation kind) {
  const Tensor leaf = gate_up.detach().requires_grad_();
  const Tensor expected = swiglu(leaf, kind, Level::cuda);
  expected.backward(grad_y);
  leave_garbage();
  const auto [y, amax] = swiglu_with_amax(gate_up, kind);
  EXPECT_TRUE(same_bits(y, expected.detach()));
  expect_largest(amax, y);
  const Tensor overwritten = gate_up.clone();
  for (const bool in_place : {false, true}) {
    leave_garbage();
    const auto [grad, amax_of_grad] = swiglu_gradient_with_amax(grad_y, overwritten, kind, in_place);
    EXPECT_EQ(grad.is_same(overwritten), in_place);
    EXPECT_TRUE(same_bits(grad, leaf.grad()));
    expect_largest(amax_of_grad, grad);
  }
}

TEST(SwigluAmax, HasTheBitsOfSwigluAndItsLargestNumber) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(3);
  for (const at::ScalarType type : kTypes) {
    for (const Activation kind : kKinds) {
      for (const int64_t rows : {1, 7, 1023, 3000}) {
        for (const int64_t width : {1, 3, 8, 33, 264, 2056, 8192}) {
          SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(width));
          expect_swiglu(random({rows, 2 * width}, type), random({rows, width}, type), kind);
        }
      }
    }
  }
}

// More pieces of a row than partial results, more rows than blocks along y, and numbers at any address.
TEST(SwigluAmax, TakesMatricesOfUnusualSizes) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(4);
  for (const auto& [rows, width] :
       {std::pair<int64_t, int64_t>{3, 4'300'800}, {2, 2'097'161}, {2, 2'097'144}, {70'000, 16}}) {
    expect_swiglu(random({rows, 2 * width}, at::kBFloat16), random({rows, width}, at::kBFloat16), Activation::silu);
  }
  const Tensor far = random({101 * 512 + 1}, at::kHalf).narrow(0, 1, 101 * 512).view({101, 512});
  const Tensor grad_y = random({101, 256}, at::kHalf);
  const auto [grad, amax] = swiglu_gradient_with_amax(grad_y, far, Activation::silu, /*in_place=*/false);
  EXPECT_TRUE(same_bits(grad, swiglu_gradient_with_amax(grad_y, far.clone(), Activation::silu, false).tensor));
  expect_largest(amax, grad);
}

// Each number decides: one that a thread does not see would be missed.
TEST(SwigluAmax, FindsTheLargestNumberAnywhere) {
  ASSERT_TRUE(at::hasCUDA());
  for (const at::ScalarType type : kTypes) {
    const int64_t rows = 1031, width = 272;
    const Tensor gate_up = at::zeros({rows, 2 * width}, at::device(at::kCUDA).dtype(type));
    const Tensor grad_y = at::ones({rows, width}, gate_up.options());
    for (int64_t i = 0; i < rows * width; i += 2411) {
      const int64_t row = i / width, column = i % width;
      gate_up[row][column] = i % 2 == 0 ? 4 : -4;
      gate_up[row][width + column] = 3;
      const auto [y, amax] = swiglu_with_amax(gate_up, Activation::silu);
      ASSERT_GT(largest_bits(y), 0);
      expect_largest(amax, y);
      const auto [grad, amax_of_grad] = swiglu_gradient_with_amax(grad_y, gate_up, Activation::silu, false);
      ASSERT_EQ(grad.abs().argmax().item<int64_t>() / (2 * width), row);
      expect_largest(amax_of_grad, grad);
      gate_up.zero_();
    }
  }
}

TEST(SwigluAmax, ShowsLostNumbers) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(5);
  for (const at::ScalarType type : kTypes) {
    for (const float lost : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (const int64_t width : {33, 272}) {
        const Tensor gate_up = random({1500, 2 * width}, type), grad_y = random({1500, width}, type);
        gate_up[1499][2 * width - 1] = lost;
        expect_swiglu(gate_up, grad_y, Activation::silu);
      }
    }
  }
}

// The gradient of a plain swiglu is written to memory of its own, and so is this one.
TEST(SwigluAmax, RateIsThatOfSwiglu) {
  ASSERT_TRUE(at::hasCUDA());
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{32768, 8192}, {16384, 14336}, {8192, 3072}}) {
    const Tensor gate_up = random({rows, 2 * width}, at::kBFloat16), grad_y = random({rows, width}, at::kBFloat16);
    const Tensor scratch = gate_up.clone(), copy = at::empty_like(gate_up);
    const double elements = static_cast<double>(grad_y.numel());
    const double copy_rate = elements * 8 / seconds_of([&] { copy.copy_(gate_up); });
    const double forward = seconds_of([&] { swiglu_forward_cuda(gate_up, Activation::silu); });
    const double forward_amax = seconds_of([&] { swiglu_with_amax(gate_up, Activation::silu); });
    const double backward = seconds_of([&] { swiglu_backward_cuda(grad_y, gate_up, Activation::silu); });
    const auto gradient = [&](const Tensor& of, bool in_place) {
      return seconds_of([&] { swiglu_gradient_with_amax(grad_y, of, Activation::silu, in_place); });
    };
    const double backward_amax = gradient(gate_up, false), in_place = gradient(scratch, true);
    std::printf("%ld x %ld, a copy %.0f GB/s\n", static_cast<long>(rows), static_cast<long>(width), copy_rate / 1e9);
    const auto print = [&](const char* name, double seconds, double bytes) {
      const double rate = elements * bytes / seconds;
      std::printf("  %-26s %7.1f us, %.0f GB/s, %.2f of a copy\n", name, seconds * 1e6, rate / 1e9, rate / copy_rate);
    };
    print("forward", forward, 6);
    print("forward with amax", forward_amax, 6);
    print("backward", backward, 10);
    print("backward with amax", backward_amax, 10);
    print("backward, amax, in place", in_place, 10);
    const auto with_operand = [&](const char* name, const std::function<WithAmax(bool)>& made) {
      const auto seconds = [&](bool amax) {
        return seconds_of([&] {
          const WithAmax x = made(amax);
          fp8_operand(x.tensor, {Element::e5m2, Scaling::tensor}, OperandLayouts::both, x.amax);
        });
      };
      const double without = seconds(false), with = seconds(true);
      std::printf("  %-26s %7.1f us, %.1f us without amax\n", name, with * 1e6, without * 1e6);
      EXPECT_LT(with, without);
    };
    with_operand("forward and operand", [&](bool amax) {
      if (amax) return swiglu_with_amax(gate_up, Activation::silu);
      return WithAmax{swiglu_forward_cuda(gate_up, Activation::silu), {}};
    });
    with_operand("backward and operand", [&](bool amax) {
      if (amax) return swiglu_gradient_with_amax(grad_y, scratch, Activation::silu, /*in_place=*/true);
      return WithAmax{swiglu_backward_cuda(grad_y, gate_up, Activation::silu), {}};
    });
    EXPECT_LT(forward_amax, 1.1 * forward);
    EXPECT_LT(backward_amax, 1.1 * backward);
    EXPECT_LT(in_place, 1.1 * backward);
  }
}

}  // namespace
}  // namespace strata::kernels
