// SPDX-License-Identifier: MIT
// Checks calls that level aot_inductor of attention refuses, and the memory that it allocates, without a GPU.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

std::string refusal(at::ScalarType type, at::IntArrayRef sizes, int64_t heads) {
  try {
    attention(at::empty(sizes, at::device(at::kMeta).dtype(type)), heads, heads, {parse_pattern("causal")}, {},
              Level::aot_inductor);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

TEST(PackagedAttention, SaysWhatItDoesNotTake) {
  const Tracing tracing(c10::kCUDA);
  EXPECT_EQ(refusal(at::kBFloat16, {2, 70, 3 * 64}, 1), "nothing was refused");
  EXPECT_EQ(refusal(at::kDouble, {2, 70, 3 * 64}, 1),
            "attention/aot_inductor: qkv is Double, expected Float, BFloat16 or Half; level aten takes it");
  EXPECT_EQ(refusal(at::kFloat, {2, 70, 3 * 40}, 1),
            "attention/aot_inductor: heads are 40 wide, expected a multiple of 16 up to 256; level aten takes it");
  EXPECT_EQ(refusal(at::kFloat, {2, 70, 3 * 272}, 1),
            "attention/aot_inductor: heads are 272 wide, expected a multiple of 16 up to 256; level aten takes it");
  EXPECT_EQ(refusal(at::kBFloat16, {1 << 16, 70, 3 * 128}, 1),
            "attention/aot_inductor: qkv is [65536, 70, 384], which is 3221225472 elements in whole tiles of 128 "
            "positions, expected less than 2^31; level triton takes it");
}

// Nothing grows with the square of the positions but the lists, which have a number for each pair of tiles.
TEST(PackagedAttention, StoresNothingForEachPair) {
  const auto most = [](int64_t positions) {
    Tracing tracing(c10::kCUDA);
    const Tensor qkv = at::empty({1, positions, 3 * 64}, at::device(at::kMeta).dtype(at::kBFloat16)).requires_grad_();
    const int64_t before = tracing.most();
    const Tensor y = attention(qkv, 1, 1, {parse_pattern("causal & window(100)")}, {}, Level::aot_inductor);
    torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
    return tracing.most() - before;
  };
  const int64_t once = most(8192), twice = most(16384);
  EXPECT_LT(twice, 2 * once + 16 * (16384 / 128) * (16384 / 128) + 4096);
  EXPECT_GT(twice, once);
}

}  // namespace
}  // namespace strata::kernels
