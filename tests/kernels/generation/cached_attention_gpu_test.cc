// SPDX-License-Identifier: MIT
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "kernels/runtime/product_sums.h"
#include "tests/kernels/generation/cached_steps.h"

namespace strata::kernels {
namespace {

TEST(CachedAttentionOnGpu, StepsEqualAttentionOverWholeRows) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const at::NoGradGuard no_gradients;
  accumulate_products_in_fp32();
  check_cached_steps(at::kCUDA, at::kFloat, 1e-5);
  check_cached_steps(at::kCUDA, at::kBFloat16, 0.04);  // rotated queries and keys are rounded
  check_cached_steps(at::kCUDA, at::kHalf, 0.005);
}

}  // namespace
}  // namespace strata::kernels
