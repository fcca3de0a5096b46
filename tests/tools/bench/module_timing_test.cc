// SPDX-License-Identifier: MIT
// Calls of a module take different inputs in turn, and memory and launches are those of one forward and backward.
#include "tools/bench/modules/module_timing.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <set>

#include "tools/bench/kernels/timer.h"

namespace strata::tools {
namespace {

constexpr int64_t kElements = 25'600, kBytes = 4 * kElements;

ModuleInputs inputs(int64_t elements = kElements) {
  const auto leaf = [&](double value) { return at::full({elements}, value).requires_grad_(); };
  return {{{"weight", leaf(3)}}, leaf(2), at::ones({elements})};
}

BuildModule product() {
  return [](const Parameters& parameters) {
    return [weight = parameters.at("weight")](const Tensor& x) { return at::mul(x, weight); };
  };
}

TEST(ModuleTiming, SetsOfInputsFillTheCacheTwice) {
  const int64_t cache = cache_bytes(at::kCPU);
  EXPECT_EQ(rotating_sets(cache, at::kCPU), 3);
  EXPECT_EQ(rotating_sets(cache / 4, at::kCPU), 9);
  EXPECT_EQ(rotating_sets(8 * cache, at::kCPU), 2);
  EXPECT_EQ(rotating_sets(1, at::kCPU), 64);
}

// In the first round of calls none reads what another one has read: neither input, parameter nor gradient.
TEST(ModuleTiming, CallsTakeInputsInTurn) {
  std::vector<const void*> inputs_read, weights_read, gradients_read;
  const BuildModule build = [&](const Parameters& parameters) -> ModuleCase::Function {
    return [&, weight = parameters.at("weight")](const Tensor& x) {
      inputs_read.push_back(x.data_ptr()), weights_read.push_back(weight.data_ptr());
      const Tensor y = at::mul(x, weight);
      y.register_hook([&](const Tensor& gradient) { gradients_read.push_back(gradient.data_ptr()); });
      return y;
    };
  };
  const int64_t elements = cache_bytes(at::kCPU) / 256;
  const ModuleTimes times = time_module(build, inputs(elements));
  // A forward and backward reads x, weight and the gradient, and makes y and two gradients.
  ASSERT_EQ(times.sets, rotating_sets(6 * 4 * elements, at::kCPU));
  ASSERT_LT(times.sets, 64);
  const auto sets = static_cast<std::ptrdiff_t>(times.sets);
  // The first call is that of the peak, and those of the backward follow on it.
  for (const auto* read : {&inputs_read, &weights_read}) {
    ASSERT_GT(read->size(), times.sets + 7);
    EXPECT_EQ(std::set(read->begin() + 1, read->begin() + 1 + sets).size(), times.sets);
    EXPECT_EQ(std::set(read->begin(), read->end()).size(), times.sets + 1);
  }
  ASSERT_GT(gradients_read.size(), 7u);
  EXPECT_GE(std::set(gradients_read.begin(), gradients_read.end()).size(), std::min<int64_t>(times.sets, 7));
}

TEST(ModuleTiming, PeaksAreThoseOfOneSet) {
  const ModuleTimes times = time_module(product(), inputs());
  EXPECT_GT(times.sets, 1);
  EXPECT_EQ(times.peak_bytes, 3 * kBytes);  // the product and the two gradients
}

TEST(ModuleTiming, LaunchesAreThoseOfOneCall) {
  const ModuleTimes times = time_module(product(), inputs());
  EXPECT_EQ(times.forward_launches, 1);
  EXPECT_EQ(times.backward_launches, 2);
  EXPECT_GE(times.forward.size(), 7u);
  EXPECT_GE(times.backward.size(), 7u);
  EXPECT_FALSE(times.joules);  // a CPU has no counter
}

}  // namespace
}  // namespace strata::tools
