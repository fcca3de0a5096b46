// SPDX-License-Identifier: MIT
#include "trainer/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <variant>

namespace strata::trainer {

Optimizer::Optimizer(const OptimizerConfig& config, kernels::Level level,
                     const std::vector<sharding::ShardedParameterGroup*>& groups)
    : config_(config), level_(level), groups_(groups) {
  for (auto* group : groups_) {
    const auto zeros_if = [&](bool wanted) { return wanted ? at::zeros_like(group->master()) : Tensor(); };
    moments_.push_back({zeros_if(true), zeros_if(config_.moments() > 1), zeros_if(config_.moving_average > 0)});
  }
}

void Optimizer::step(const kernels::AdamwScalars& scalars) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::visit([&](const auto& type) { update(type, i, scalars); }, config_.type);
  }
  update_averages(scalars);
}

void Optimizer::update(const AdamW& adamw, size_t index, const kernels::AdamwScalars& scalars) {
  auto& group = *groups_[index];
  const int64_t elements = group.master().numel();
  const int64_t decayed = group.layout().decayed_in_shard(group.shard_rank());
  const auto update_part = [&](int64_t first, int64_t count, double weight_decay) {
    if (count == 0) return;
    const auto part = [&](const Tensor& shard) { return shard.defined() ? shard.narrow(0, first, count) : shard; };
    Tensor master = part(group.master()), first_moment = part(moments_[index].first);
    Tensor second_moment = part(moments_[index].second), compute_copy = part(group.compute_copy());
    kernels::adamw(master, first_moment, second_moment, part(group.gradient()), compute_copy, scalars,
                   {adamw.betas[0], adamw.betas[1], adamw.epsilon, weight_decay}, level_);
  };
  update_part(0, decayed, config_.weight_decay);
  update_part(decayed, elements - decayed, 0);
}

void Optimizer::update_averages(const kernels::AdamwScalars& scalars) {
  if (config_.moving_average == 0) return;
  // A young average follows faster, because it started from random weights: min(decay, (1 + n) / (10 + n)), as in timm.
  const Tensor decay = at::clamp_max((scalars.step + 1) / (scalars.step + 10), config_.moving_average);
  const Tensor share = (1 - decay) * (1 - scalars.skip);
  for (size_t i = 0; i < groups_.size(); ++i) moments_[i].average.lerp_(groups_[i]->master(), share);
}

std::vector<Tensor> Optimizer::state() const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Tensor& tensor : {groups_[i]->master(), moments_[i].first, moments_[i].second, moments_[i].average}) {
      if (tensor.defined()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

void Optimizer::start_averages() {
  if (config_.moving_average == 0) return;
  for (size_t i = 0; i < groups_.size(); ++i) moments_[i].average.copy_(groups_[i]->master());
}

void Optimizer::exchange_averages() {
  if (config_.moving_average == 0) return;
  constexpr int64_t kElements = 1 << 20;  // at a time, because there is no memory for a second copy of the weights
  for (size_t i = 0; i < groups_.size(); ++i) {
    auto& group = *groups_[i];
    const int64_t all = group.master().numel();
    for (int64_t first = 0; first < all; first += kElements) {
      const int64_t count = std::min(kElements, all - first);
      const Tensor weights = group.master().narrow(0, first, count);
      const Tensor average = moments_[i].average.narrow(0, first, count);
      const Tensor kept = weights.clone();
      weights.copy_(average);
      average.copy_(kept);
    }
    if (group.compute_copy().defined()) group.compute_copy().copy_(group.master());
  }
}

}  // namespace strata::trainer
