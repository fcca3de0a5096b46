// SPDX-License-Identifier: MIT
// On a GPU, kernels are counted, the energy is that of its counter, and each op of a module gets the fastest level.
#include <ATen/Context.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <set>

#include "base/quantile.h"
#include "kernels/linear/linear.h"
#include "kernels/runtime/product_sums.h"
#include "tools/bench/energy.h"
#include "tools/bench/kernels/timer.h"
#include "tools/bench/modules/best_levels.h"
#include "tools/bench/modules/module_timing.h"

namespace strata::tools {
namespace {

const at::Device kGpu(at::kCUDA, 0);

TEST(ModuleTimingOnGpu, KernelsBytesAndEnergyAreThoseOfOneCall) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const auto random = [] { return at::randn({1024, 1024}, kGpu); };
  const ModuleInputs inputs{{{"weight", random().requires_grad_()}}, random().requires_grad_(), random()};
  std::set<const void*> read;
  const BuildModule product = [&](const Parameters& parameters) -> ModuleCase::Function {
    return [&, weight = parameters.at("weight")](const Tensor& x) {
      read.insert(x.data_ptr()), read.insert(weight.data_ptr());
      return at::mul(x, weight);
    };
  };
  const ModuleTimes times = time_module(product, inputs);
  constexpr int64_t kBytes = 1024 * 1024 * 4;
  EXPECT_GE(times.peak_bytes, 3 * kBytes);
  EXPECT_LT(times.peak_bytes, 4 * kBytes);  // the allocator may give a little more than was asked for
  EXPECT_EQ(times.sets, rotating_sets(times.peak_bytes + 3 * kBytes, kGpu));
  EXPECT_GT(times.sets, 2);  // the cache of a GPU is larger than these tensors
  EXPECT_EQ(read.size(), 2 * static_cast<size_t>(times.sets + 1));
  EXPECT_EQ(times.forward_launches, 1);
  EXPECT_EQ(times.backward_launches, 2);
  ASSERT_EQ(times.joules.has_value(), joules_of(kGpu).has_value());
  if (times.joules) {
    // Between 20 W, which an idle GPU takes, and 2 kW. The host takes at most 1 ms for a call.
    const double seconds = median(times.forward) + median(times.backward);
    EXPECT_GT(*times.joules, 20 * seconds);
    EXPECT_LT(*times.joules, 2000 * (seconds + 1e-3));
  }
}

TEST(BestLevelsOnGpu, TheSlowFormulaIsNotChosen) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  kernels::accumulate_products_in_fp32();
  const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(kGpu);
  const Tensor x = at::randn({4096, 768}, options), weight = at::randn({3072, 768}, options),
               bias = at::randn({3072}, options);
  const LevelChoice choice =
      best_levels([&] { kernels::linear(x, weight, bias, kernels::Activation::gelu_tanh, kernels::Level::aten); },
                  at::kBFloat16, kGpu);
  ASSERT_EQ(choice.impossible, "");
  ASSERT_TRUE(choice.levels.linear);
  EXPECT_NE(choice.levels.linear, kernels::Level::torchscript);  // which took ten times as long on an H100
  EXPECT_GT(choice.microseconds, 0);
}

}  // namespace
}  // namespace strata::tools
