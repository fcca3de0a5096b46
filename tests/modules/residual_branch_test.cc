// SPDX-License-Identifier: MIT
#include "modules/residual_branch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "modules/model_sources.h"

namespace strata::modules {
namespace {

constexpr int64_t kLayers = 5, kSamples = 4000, kTokens = 3, kWidth = 2;

ResidualBranch branch(const BlockConfig& config, int64_t layer, int64_t site, const Tensor& scale = {}) {
  BindingSource source([scale](const std::string&) { return scale; });
  const KernelsConfig kernels;
  return ResidualBranch(Scope(source, kernels).layer("blocks.0"), "mlp", config, layer, site);
}

StepContext step(int64_t key, int64_t first_sample = 0) {
  StepContext context;
  context.dropout_key = at::full({1}, key, at::kLong);
  context.first_row = first_sample * kTokens;
  return context;
}

Tensor ones(int64_t samples = kSamples) { return at::ones({samples, kTokens, kWidth}); }

TEST(ResidualBranch, IsMultipliedByLayerScale) {
  const Tensor scale = at::arange(1, kWidth + 1, at::kFloat) / 4;
  const Tensor seen = branch({.layers = kLayers, .width = kWidth, .layer_scale = 0.5}, 0, 1, scale)(ones(7), {});
  EXPECT_TRUE(at::equal(seen, ones(7) * scale));
  EXPECT_TRUE(at::equal(branch({.layers = kLayers}, 0, 1)(ones(7), {}), ones(7)));
}

TEST(ResidualBranch, LeavesOutWholeSamplesMoreOfThemInLaterBlocks) {
  constexpr double kLast = 0.4;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    // The rates are those of torch.linspace(0, rate, layers) in timm.
    const double share = kLast * static_cast<double>(layer) / (kLayers - 1);
    const Tensor seen = branch({.layers = kLayers, .stochastic_depth = kLast}, layer, 1)(ones(), step(3));
    const Tensor sample_factors = seen.select(2, 0).select(1, 0);
    EXPECT_TRUE(at::equal(seen, sample_factors.view({kSamples, 1, 1}) * ones())) << "a sample was left out in part";
    const Tensor left_out = sample_factors.eq(0);
    const double expected = share * kSamples, deviation = std::sqrt(share * (1 - share) * kSamples);
    EXPECT_NEAR(left_out.sum().item<double>(), expected, 4 * deviation) << layer;
    // Samples that are kept are scaled by 1 / (1 - share).
    EXPECT_LT(((sample_factors - 1 / (1 - share)).abs() * left_out.logical_not()).max().item<double>(), 1e-6) << layer;
  }
}

TEST(ResidualBranch, LeavesOutOthersInEachStepAndEachBranchAndNoneInAnEvaluation) {
  const BlockConfig config = {.layers = 2, .stochastic_depth = 0.5};
  const Tensor seen = branch(config, 1, 1)(ones(), step(3));
  EXPECT_TRUE(at::equal(branch(config, 1, 1)(ones(), step(3)), seen));
  EXPECT_FALSE(at::equal(branch(config, 1, 1)(ones(), step(4)), seen));
  EXPECT_FALSE(at::equal(branch(config, 1, 2)(ones(), step(3)), seen));
  EXPECT_TRUE(at::equal(branch(config, 1, 1)(ones(), {}), ones()));
  // The same samples are skipped for every split into micro-batches.
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < kSamples; first += kSamples / 4) {
    parts.push_back(branch(config, 1, 1)(ones(kSamples / 4), step(3, first)));
  }
  EXPECT_TRUE(at::equal(at::cat(parts), seen));
}

}  // namespace
}  // namespace strata::modules
