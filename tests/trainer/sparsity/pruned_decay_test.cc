// SPDX-License-Identifier: MIT
// The decay of pruned weights on the shards of two ranks, against its formula on whole weights in fp64.
#include "trainer/model/pruned_decay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "kernels/sparsity/prune.h"
#include "sharding/communication/local_communicator.h"

namespace strata::trainer {
namespace {

using sharding::FlatLayout;
using sharding::ShardedParameterGroup;

constexpr double kDecay = 0.25, kFactor = 3;

// A rank of two that communicates with nobody.
class AloneOfTwo : public sharding::Communicator {
 public:
  explicit AloneOfTwo(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  at::Device device() const override { return at::kCPU; }
  sharding::PendingCollective start(const sharding::Collective&) override { return {}; }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override { return at::zeros({elements}, options); }
  std::unique_ptr<Communicator> split(int) override { return nullptr; }

 private:
  const int rank_;
};

const std::vector<sharding::FlatParameter> kParameters = {{"blocks.0.mlp.up.weight", {6, 36}, true},
                                                          {"blocks.0.mlp.down.weight", {36, 8}, true},
                                                          {"blocks.0.attention.qkv.weight", {8, 8}, true},
                                                          {"blocks.0.mlp.norm.weight", {8}, false}};

std::vector<modules::DeclaredModule> declared() {
  const auto linear = [](const char* name, int64_t outputs, int64_t inputs) {
    return modules::DeclaredModule{
        .name = name, .group = "blocks.0", .product = modules::DeclaredLinear{outputs, inputs}};
  };
  return {linear("blocks.0.mlp.up", 6, 36), linear("blocks.0.mlp.down", 36, 8), linear("blocks.0.attention.qkv", 8, 8),
          modules::DeclaredModule{.name = "blocks.0.mlp.norm", .group = "blocks.0"}};
}

// decay * (1 - mask) * W of one element. The mask is that of the rounded group.
double term(const Tensor& weight, at::ScalarType compute, int64_t element) {
  const Tensor rounded = weight.flatten().to(compute).to(at::kDouble).abs();
  const double* group = rounded.const_data_ptr<double>() + element / 4 * 4;
  const int64_t own = element % 4;
  int64_t before = 0;
  for (int64_t other = 0; other < 4; ++other) {
    before += group[other] > group[own] || (group[other] == group[own] && other < own) ? 1 : 0;
  }
  return before < 2 ? 0 : kDecay * weight.flatten()[element].item<double>();
}

modules::SparsityConfig sparsity_of(const std::string& only, double decay) {
  return {.pattern = modules::SparsityPattern::two_of_four, .only = only, .decay = decay};
}

// Returns the gradient of each element after the decay, by the name of its parameter. It was 1 before.
std::map<std::string, std::vector<double>> gradients_on(int rank, at::ScalarType compute, at::ScalarType reduce,
                                                        const std::map<std::string, Tensor>& weights,
                                                        const modules::SparsityConfig& sparsity) {
  AloneOfTwo shards(rank);
  sharding::LocalCommunicator replicas;
  const FlatLayout layout(kParameters, shards.size());
  sharding::SlotPool weight_slots(1, layout.elements(), at::TensorOptions(compute)),
      gradient_slots(1, layout.elements(), at::TensorOptions(reduce));
  ShardedParameterGroup group({"blocks.0", {compute, reduce}, at::kCPU, sharding::MicroBatchSum::none}, layout, shards,
                              replicas, &weight_slots, &gradient_slots);
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t first, int64_t shard_offset, int64_t count) {
    group.master().narrow(0, shard_offset, count).copy_(weights.at(entry.name).flatten().narrow(0, first, count));
  });
  if (group.compute_copy().defined()) group.compute_copy().copy_(group.master());
  group.gradient().fill_(1);
  const PrunedDecay pruned_decay(sparsity, declared(), {&group});
  EXPECT_EQ(pruned_decay.is_on(), sparsity.decay != 0) << rank;
  pruned_decay.add_to_gradients(at::scalar_tensor(kFactor));
  std::map<std::string, std::vector<double>> result;
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t first, int64_t shard_offset, int64_t count) {
    std::vector<double>& all = result[entry.name];
    all.resize(static_cast<size_t>(entry.elements), 1);
    for (int64_t i = 0; i < count; ++i) {
      all[static_cast<size_t>(first + i)] = group.gradient()[shard_offset + i].item<double>();
    }
  });
  return result;
}

TEST(PrunedDecay, IsAddedToTheGradientsOfPrunedWeightsOnce) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::manual_seed(9);
    std::map<std::string, Tensor> weights;
    for (const auto& parameter : kParameters) {
      // Numbers near 1, many of which are equal in bf16.
      weights[parameter.name] = 1 + at::randn(parameter.shape) / 64;
    }
    std::map<std::string, int64_t> changed;
    for (int rank = 0; rank < 2; ++rank) {
      for (const auto& [name, found] : gradients_on(rank, type, type, weights, sparsity_of("mlp", kDecay))) {
        const bool is_pruned = name.find(".up.") != std::string::npos || name.find(".down.") != std::string::npos;
        for (size_t i = 0; i < found.size(); ++i) {
          if (found[i] == 1) continue;
          ++changed[name];
          ASSERT_TRUE(is_pruned) << name;
          const double expected = 1 + kFactor * term(weights.at(name), type, static_cast<int64_t>(i));
          EXPECT_NEAR(found[i], expected, type == at::kFloat ? 1e-6 : 1e-2) << type << " " << name << " " << i;
        }
      }
    }
    // Two of each four, each on one rank.
    EXPECT_EQ(changed,
              (std::map<std::string, int64_t>{{"blocks.0.mlp.up.weight", 108}, {"blocks.0.mlp.down.weight", 144}}));
  }
}

// A rank that has whole weights finds the mask of 4 x 4 elements in them.
TEST(PrunedDecay, IsAddedWhereATransposableMaskPrunes) {
  at::manual_seed(10);
  sharding::LocalCommunicator alone, replicas;
  const FlatLayout layout(kParameters, /*ranks=*/1);
  ShardedParameterGroup group(
      {"blocks.0", {at::kBFloat16, at::kBFloat16}, at::kCPU, sharding::MicroBatchSum::gradient_shard}, layout, alone,
      replicas, /*weight_slots=*/nullptr, /*gradient_slots=*/nullptr);
  group.master().copy_(at::randn(group.master().sizes()));
  group.compute_copy().copy_(group.master());
  group.gradient().fill_(1);
  modules::SparsityConfig sparsity = sparsity_of("mlp.down", kDecay);
  sparsity.mask = kernels::PruneMask::transposable;
  PrunedDecay(sparsity, declared(), {&group}).add_to_gradients(at::scalar_tensor(kFactor));
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t, int64_t shard_offset, int64_t count) {
    const Tensor gradient = group.gradient().narrow(0, shard_offset, count).view(entry.shape).to(at::kDouble);
    const Tensor weight = group.master().narrow(0, shard_offset, count).view(entry.shape);
    Tensor expected = at::ones_like(gradient);
    if (entry.name.find(".down.") != std::string::npos) {
      const Tensor kept = kernels::kept_of_four(weight.to(at::kBFloat16), kernels::PruneMask::transposable);
      expected += (weight.to(at::kDouble) * kFactor * kDecay).masked_fill(kept, 0);
    }
    EXPECT_LT((gradient - expected).abs().max().item<double>(), 1e-2) << entry.name;
    EXPECT_EQ(gradient.ne(1).any().item<bool>(), expected.ne(1).any().item<bool>()) << entry.name;
  });
}

// The second parameter begins on one rank and ends on the other, so the groups of four above could be cut.
TEST(PrunedDecay, AShardEndsInAParameter) {
  const FlatLayout layout(kParameters, /*ranks=*/2);
  const FlatLayout::Entry& down = layout.entries()[1];
  EXPECT_LT(down.offset, layout.shard_elements());
  EXPECT_GT(down.offset + down.elements, layout.shard_elements());
}

// The first parameter ends in the shard of rank 0. Rank 1 must take part in the sum for the factor all the same.
TEST(PrunedDecay, IsOnWhereARankHasNoPrunedWeight) {
  at::manual_seed(10);
  std::map<std::string, Tensor> weights;
  for (const auto& parameter : kParameters) weights[parameter.name] = at::randn(parameter.shape);
  for (int rank = 0; rank < 2; ++rank) {
    int64_t changed = 0;
    for (const auto& [name, found] :
         gradients_on(rank, at::kFloat, at::kFloat, weights, sparsity_of("mlp.up", kDecay))) {
      changed += std::ranges::count_if(found, [](double gradient) { return gradient != 1; });
    }
    EXPECT_EQ(changed, rank == 0 ? 108 : 0);
  }
}

TEST(PrunedDecay, OfZeroChangesNothing) {
  std::map<std::string, Tensor> weights;
  for (const auto& parameter : kParameters) weights[parameter.name] = at::randn(parameter.shape);
  for (const auto& [name, found] : gradients_on(0, at::kFloat, at::kFloat, weights, sparsity_of("mlp", 0))) {
    EXPECT_EQ(std::ranges::count(found, 1.0), static_cast<int64_t>(found.size())) << name;
  }
}

}  // namespace
}  // namespace strata::trainer
