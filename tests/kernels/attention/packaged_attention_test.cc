// SPDX-License-Identifier: MIT
// Checks heads that levels of attention refuse, calls that level aot_inductor refuses, and the memory that it
// allocates, without a GPU.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

std::string refusal(at::ScalarType type, at::IntArrayRef sizes, int64_t heads, Level level = Level::aot_inductor) {
  try {
    attention(at::empty(sizes, at::device(at::kMeta).dtype(type)), heads, heads, {parse_pattern("causal")}, {}, level);
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
  EXPECT_EQ(refusal(at::kBFloat16, {1 << 16, 70, 3 * 128}, 1),
            "attention/aot_inductor: qkv is [65536, 70, 384], which is 3221225472 elements in whole tiles of 128 "
            "positions, expected less than 2^31; level triton takes it");
}

TEST(Attention, RefusesHeadsThatALevelDoesNotTake) {
  const Tracing tracing(c10::kCUDA);
  EXPECT_EQ(
      refusal(at::kFloat, {2, 70, 3 * 40}, 1),
      "attention/aot_inductor: qkv is Float with heads of 40, expected heads of a multiple of 16 up to 256; levels "
      "aten and torchscript take all widths");
  EXPECT_EQ(
      refusal(at::kHalf, {2, 70, 3 * 258}, 1, Level::triton),
      "attention/triton: qkv is Half with heads of 258, expected heads of at most 256; levels aten and torchscript "
      "take all widths");
  EXPECT_EQ(refusal(at::kFloat, {2, 70, 3 * 64}, 1, Level::cuda),
            "attention/cuda: qkv is Float with heads of 64, expected bfloat16 or float16; levels aten, torchscript, "
            "aot_inductor and triton take float32");
  const std::vector<std::pair<Level, std::set<int64_t>>> taken = {{Level::aten, {12, 40, 64, 256, 258, 272}},
                                                                  {Level::torchscript, {12, 40, 64, 256, 258, 272}},
                                                                  {Level::aot_inductor, {64, 256}},
                                                                  {Level::triton, {12, 40, 64, 256}},
                                                                  {Level::cuda, {40, 64, 256}}};
  for (const auto& [level, widths] : taken) {
    for (const int64_t width : {12, 40, 64, 256, 258, 272}) {
      EXPECT_EQ(refusal(at::kBFloat16, {2, 70, 3 * width}, 1, level) == "nothing was refused", widths.contains(width))
          << name(level) << ", " << width;
    }
  }
}

// Nothing grows with the square of the positions but the lists, which have a number for each pair of tiles.
TEST(PackagedAttention, StoresNothingForEachPair) {
  const auto most = [](int64_t positions) {
    Tracing tracing(c10::kCUDA);
    const Tensor qkv = at::empty({1, positions, 3 * 64}, at::device(at::kMeta).dtype(at::kBFloat16)).requires_grad_();
    const int64_t before = tracing.peak_bytes();
    const Tensor y = attention(qkv, 1, 1, {parse_pattern("causal & window(100)")}, {}, Level::aot_inductor);
    torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
    return tracing.peak_bytes() - before;
  };
  const int64_t once = most(8192), twice = most(16384);
  EXPECT_LT(twice, 2 * once + 16 * (16384 / 128) * (16384 / 128) + 4096);
  EXPECT_GT(twice, once);
}

}  // namespace
}  // namespace strata::kernels
