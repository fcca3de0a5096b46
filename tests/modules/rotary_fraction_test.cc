// SPDX-License-Identifier: MIT
// Checks scores of a head of which a part is rotated against transformers' order of features in fp64: the first r
// features in pairs (i, i + r / 2), or (2i, 2i + 1) as in GLM, and the others not at all. At every level on CPUs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rotary/rotary.h"
#include "modules/rotary_tables.h"

namespace strata::modules {
namespace {

using kernels::Level;

constexpr int64_t kPositions = 7, kWidth = 16, kTurned = 12, kPairs = kTurned / 2, kHalf = kWidth / 2;
constexpr double kBase = 10;  // so that every pair turns far
constexpr double kEpsilon = 1e-5;

TransformerConfig config_with(double fraction) {
  TransformerConfig config;
  config.layers = 1;
  config.width = kWidth;
  config.heads = 1;
  config.rotary_base = kBase;
  config.rotary_fraction = fraction;
  return config;
}

// x [T, D] in transformers' order -> the features of the first and of the second member of each pair.
struct Pairs {
  Tensor first, second, rest;
};
Pairs pairs_of(const Tensor& x, bool neighbors) {
  const Tensor rest = x.narrow(1, kTurned, kWidth - kTurned);
  if (neighbors) return {x.slice(1, 0, kTurned, 2), x.slice(1, 1, kTurned, 2), rest};
  return {x.narrow(1, 0, kPairs), x.narrow(1, kPairs, kPairs), rest};
}

Tensor rotated_by_formula(const Tensor& x, bool neighbors) {
  const auto [first, second, rest] = pairs_of(x.to(at::kDouble), neighbors);
  const Tensor exponents = at::arange(kPairs, at::kDouble).mul(-2.0 / kTurned);
  const Tensor angle = at::outer(at::arange(kPositions, at::kDouble), exponents.mul(std::log(kBase)).exp());
  const Tensor c = angle.cos(), s = angle.sin();
  return at::cat({first * c - second * s, second * c + first * s, rest}, 1);
}

// The same features in the order of Strata: pairs (i, i + D / 2), rotated ones first.
Tensor in_our_order(const Tensor& x, bool neighbors) {
  const auto [first, second, rest] = pairs_of(x, neighbors);
  const int64_t left = kHalf - kPairs;
  return at::cat({first, rest.narrow(1, 0, left), second, rest.narrow(1, left, left)}, 1);
}

Tensor scores(const Tensor& query, const Tensor& key) {
  return at::einsum("td,sd->ts", {query.to(at::kDouble), key.to(at::kDouble)});
}

double error_of(const Tensor& found, const Tensor& expected) { return (found - expected).abs().max().item<double>(); }

class RotaryFraction : public testing::TestWithParam<bool> {
 protected:
  const Tensor query_ = at::randn({kPositions, kWidth}), key_ = at::randn({kPositions, kWidth});
  const Tensor qkv_ = at::cat({in_our_order(query_, GetParam()), in_our_order(key_, GetParam()), query_}, 1);
  const RotaryTables::Table angles_ = rotary_tables(config_with(0.75), kPositions).of(0);
};

constexpr Level kLevels[] = {Level::aten, Level::torchscript, Level::aot_inductor};

TEST_P(RotaryFraction, ScoresAreThoseOfTheFormula) {
  const Tensor expected = scores(rotated_by_formula(query_, GetParam()), rotated_by_formula(key_, GetParam()));
  for (const Level level : kLevels) {
    const Tensor y = kernels::rotary(qkv_.clone().unsqueeze(0), angles_.cosine, angles_.sine, 1, 1, level)[0];
    EXPECT_LT(error_of(scores(y.narrow(1, 0, kWidth), y.narrow(1, kWidth, kWidth)), expected), 1e-5);
    for (const int64_t column : {kPairs, kHalf + kPairs, kWidth + kPairs}) {
      const int64_t left = kHalf - kPairs;
      EXPECT_TRUE(y.narrow(1, column, left).equal(qkv_.narrow(1, column, left))) << name(level) << column;
    }
  }
  // The test would see a head that is rotated whole, and transformers' order of features where ours is expected.
  const auto error_with = [&](const Tensor& qkv, const RotaryTables::Table& angles) {
    const Tensor y = kernels::rotary(qkv.clone().unsqueeze(0), angles.cosine, angles.sine, 1, 1, Level::aten)[0];
    return error_of(scores(y.narrow(1, 0, kWidth), y.narrow(1, kWidth, kWidth)), expected);
  };
  EXPECT_GT(error_with(qkv_, rotary_tables(config_with(1), kPositions).of(0)), 0.1);
  EXPECT_GT(error_with(at::cat({query_, key_, query_}, 1), angles_), 0.1);
}

TEST_P(RotaryFraction, ScoresOfNormalizedHeadsAreThoseOfTheFormula) {
  const Tensor weights = at::rand({2, kWidth}).add(0.5);
  const auto normalized = [&](const Tensor& x, int64_t row) {
    const Tensor wide = x.to(at::kDouble);
    return wide * at::rsqrt(wide.square().mean({1}, /*keepdim=*/true) + kEpsilon) * weights[row].to(at::kDouble);
  };
  const auto rotated = [&](const Tensor& x, int64_t row) { return rotated_by_formula(normalized(x, row), GetParam()); };
  const Tensor expected = scores(rotated(query_, 0), rotated(key_, 1));
  const Tensor ours = in_our_order(weights, GetParam());
  const kernels::HeadNorms norms = {ours[0].contiguous(), ours[1].contiguous()};
  for (const Level level : kLevels) {
    const Tensor y =
        kernels::rms_norm_rotary(qkv_.unsqueeze(0), norms, angles_.cosine, angles_.sine, 1, 1, kEpsilon, level)[0];
    EXPECT_LT(error_of(scores(y.narrow(1, 0, kWidth), y.narrow(1, kWidth, kWidth)), expected), 1e-4) << name(level);
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, RotaryFraction, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "neighbors" : "halves"); });

}  // namespace
}  // namespace strata::modules
