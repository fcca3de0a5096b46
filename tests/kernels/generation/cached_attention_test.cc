// SPDX-License-Identifier: MIT
#include "kernels/attention/cached/cached_attention.h"

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/kernels/generation/cached_steps.h"

namespace strata::kernels {
namespace {

// fp32 is computed by loops, and the other types by operators of ATen.
TEST(CachedAttention, StepsEqualAttentionOverWholeRows) {
  const at::NoGradGuard no_gradients;
  check_cached_steps(at::kCPU, at::kDouble, 1e-6);  // the angles are fp32
  check_cached_steps(at::kCPU, at::kFloat, 1e-5);
  check_cached_steps(at::kCPU, at::kBFloat16, 0.04);  // rotated queries and keys are rounded
}

}  // namespace
}  // namespace strata::kernels
