// SPDX-License-Identifier: MIT
// B rows, H query heads, K key and value heads, D head width
#include "tests/kernels/generation/cached_steps.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/attention/cached/cached_attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/rotary/rotary.h"

namespace strata::kernels {
namespace {

// Number of tokens by which the other rows are ahead of the first one.
constexpr int64_t kAhead = 5;

struct Case {
  int64_t heads, key_value_heads, head_width;
  std::string pattern;
  int64_t positions;
  bool rotary = true;
  ScoreTerms terms = {};
  int64_t rows = 2;
};

std::vector<Case> cases() {
  const ScoreTerms all = {.alibi = true, .softcap = 1.5, .sinks = true};
  return {
      {4, 4, 64, "causal", 70},
      {6, 3, 96, "causal", 21},
      {8, 2, 128, "causal & window(9)", 30},
      {14, 2, 64, "causal", 40},
      {5, 1, 256, "causal & window(6)", 14, false, {.sinks = true}},
      {3, 3, 8, "causal", 300, true, {.softcap = 2}},
      {6, 2, 40, "causal & window(17)", 33, false, all},
      {4, 2, 64, "causal & (window(4) | global(2) | dilated(5, 3))", 30},
      {4, 2, 16, "causal & (window(4) | global(2))", 30, true, all},
      {4, 2, 10, "causal & window(7)", 25},  // no kernel has heads of 10
      {2, 1, 32, "causal & window(1)", 9},
      // Clusters of the kernel have 4, 2 and 1 blocks.
      {8, 8, 16, "causal", 12, true, {}, 5},
      {8, 8, 16, "causal", 12, true, {}, 9},
      {16, 8, 16, "causal", 12, true, {.sinks = true}, 40},
      {8, 8, 256, "causal", 40, true, {}, 17},  // one block, which loads its keys in several rounds
  };
}

struct Angles {
  Tensor cosine, sine;  // [positions, D / 2]
};

Angles angles_of(const Case& c) {
  const Tensor place = at::arange(c.positions, at::kDouble).unsqueeze(1);
  const Tensor pair = at::arange(c.head_width / 2, at::kDouble).unsqueeze(0);
  const Tensor angle = place * (pair.mul(-0.3).exp());
  return {at::cos(angle).to(at::kFloat), at::sin(angle).to(at::kFloat)};
}

// The last token of qkv [1, T, (H + 2K) * D] in fp64.
Tensor definition(const Case& c, const Tensor& qkv, const Angles& angles, const Tensor& sinks) {
  Tensor wide = qkv.to(at::kCPU, at::kDouble).clone();
  const int64_t length = wide.size(1);
  if (c.rotary) {
    wide = rotary(wide, angles.cosine.narrow(0, 0, length), angles.sine.narrow(0, 0, length), c.heads,
                  c.key_value_heads, Level::aten);
  }
  const AttentionTerms terms = {c.terms.alibi, c.terms.softcap,
                                sinks.defined() ? sinks.to(at::kCPU, at::kDouble) : Tensor()};
  return attention(wide, c.heads, c.key_value_heads, {parse_pattern(c.pattern)}, terms, Level::aten)
      .select(1, length - 1);
}

void check(const Case& c, at::Device device, at::ScalarType type, double tolerance) {
  const at::TensorOptions options = at::dtype(type).device(device);
  const Pattern pattern = parse_pattern(c.pattern);
  const int64_t width = (c.heads + 2 * c.key_value_heads) * c.head_width;
  const Tensor qkv = at::randn({c.rows, c.positions, width}, at::kDouble).mul_(1.5).to(options);
  const Tensor sinks = c.terms.sinks ? at::randn({c.heads}, at::kDouble).to(options) : Tensor();
  const Angles angles = angles_of(c);
  const AttentionTerms terms = {c.terms.alibi, c.terms.softcap, sinks};
  const int64_t slots = slots_of(pattern, c.positions), alibi_heads = c.terms.alibi ? c.heads : 0;
  const Tensor cache = at::zeros({2, c.rows, c.key_value_heads, slots, c.head_width}, options);

  // The first tokens of the other rows are a prompt.
  const Tensor prompt_positions = at::arange(kAhead, at::dtype(at::kLong).device(device)).unsqueeze(0);
  for (int64_t b = 1; b < c.rows; ++b) {
    Tensor prompt = qkv.narrow(0, b, 1).narrow(1, 0, kAhead).clone();
    if (c.rotary) {
      prompt = rotary(prompt, angles.cosine.narrow(0, 0, kAhead).to(device),
                      angles.sine.narrow(0, 0, kAhead).to(device), c.heads, c.key_value_heads, Level::aten);
    }
    const Tensor row = cache.narrow(1, b, 1);
    store_keys_and_values(row, prompt, slots_of_step(prompt_positions, row, pattern, alibi_heads).slot);
  }

  for (int64_t step = 0; step + kAhead < c.positions; ++step) {
    Tensor positions = at::full({c.rows, 1}, step + kAhead, at::kLong);
    positions[0][0] = step;
    positions = positions.to(device);
    const Tensor token =
        at::cat({qkv.narrow(0, 0, 1).narrow(1, step, 1), qkv.narrow(0, 1, c.rows - 1).narrow(1, step + kAhead, 1)});
    TokenAngles token_angles;
    if (c.rotary) {
      const Tensor rows = positions.flatten();
      token_angles.cosine = angles.cosine.to(device).index_select(0, rows);
      token_angles.sine = angles.sine.to(device).index_select(0, rows);
    }
    const Tensor y =
        cached_attention(token, token_angles, cache, slots_of_step(positions, cache, pattern, alibi_heads), terms);
    ASSERT_EQ(y.scalar_type(), type);
    for (int64_t b = 0; b < c.rows; ++b) {
      const int64_t length = step + (b > 0 ? kAhead : 0) + 1;
      const Tensor expected = definition(c, qkv.narrow(0, b, 1).narrow(1, 0, length), angles, sinks)[0];
      const Tensor error = (y[b][0].to(at::kCPU, at::kDouble) - expected).abs() / (expected.abs() + 1);
      ASSERT_LE(error.max().item<double>(), tolerance)
          << c.heads << " and " << c.key_value_heads << " heads of " << c.head_width << ", " << c.pattern << ", row "
          << b << ", step " << step;
    }
  }
}

}  // namespace

void check_cached_steps(at::Device device, at::ScalarType type, double tolerance) {
  at::manual_seed(3);
  for (const Case& c : cases()) check(c, device, type, tolerance);
}

}  // namespace strata::kernels
