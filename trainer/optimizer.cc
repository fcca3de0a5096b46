// SPDX-License-Identifier: MIT
#include "trainer/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <variant>

#include "kernels/adamw/adamw.h"

namespace strata::trainer {

Optimizer::Optimizer(const OptimizerConfig& config, kernels::Level level,
                     const std::vector<sharding::ShardedParameterGroup*>& groups)
    : config_(config), level_(level), groups_(groups) {
  for (auto* group : groups_) {
    const auto zeros_if = [&](bool wanted) { return wanted ? at::zeros_like(group->master()) : Tensor(); };
    states_.push_back(
        {zeros_if(config_.moments() > 0), zeros_if(config_.moments() > 1), zeros_if(config_.moving_average > 0)});
  }
}

void Optimizer::step(const kernels::UpdateScalars& scalars) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const auto& piece : groups_[i]->layout().parts_of_shard(groups_[i]->shard_rank())) {
      PartViews part = views_of(i, piece);
      std::visit([&](const auto& type) { update(type, part, scalars); }, config_.type);
    }
  }
  update_averages(scalars);
}

Optimizer::PartViews Optimizer::views_of(size_t group, const sharding::FlatLayout::ShardPart& part) {
  const auto view = [&](const Tensor& shard) {
    return shard.defined() ? shard.narrow(0, part.first, part.count) : shard;
  };
  return {view(groups_[group]->master()),       view(states_[group].first_moment),
          view(states_[group].second_moment),   view(groups_[group]->gradient()),
          view(groups_[group]->compute_copy()), part.decayed ? config_.weight_decay : 0};
}

void Optimizer::update(const AdamW& adamw, PartViews& part, const kernels::UpdateScalars& scalars) const {
  kernels::adamw(part.master, part.first_moment, part.second_moment, part.gradient, part.compute_copy, scalars,
                 {adamw.betas[0], adamw.betas[1], adamw.epsilon, part.weight_decay}, level_);
}

void Optimizer::update_averages(const kernels::UpdateScalars& scalars) {
  if (config_.moving_average == 0) return;
  // A young average follows faster, because it started from random weights: min(decay, (1 + n) / (10 + n)), as in timm.
  const Tensor decay = at::clamp_max((scalars.step + 1) / (scalars.step + 10), config_.moving_average);
  const Tensor step_share = (1 - decay) * (1 - scalars.skip);
  for (size_t i = 0; i < groups_.size(); ++i) states_[i].average.lerp_(groups_[i]->master(), step_share);
}

std::vector<Tensor> Optimizer::state() const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Tensor& tensor :
         {groups_[i]->master(), states_[i].first_moment, states_[i].second_moment, states_[i].average}) {
      if (tensor.defined()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

void Optimizer::start_averages() {
  if (config_.moving_average == 0) return;
  for (size_t i = 0; i < groups_.size(); ++i) states_[i].average.copy_(groups_[i]->master());
}

void Optimizer::exchange_averages() {
  if (config_.moving_average == 0) return;
  constexpr int64_t kElements = 1 << 20;  // at a time, because there is no memory for a second copy of the weights
  for (size_t i = 0; i < groups_.size(); ++i) {
    auto& group = *groups_[i];
    const int64_t elements = group.master().numel();
    for (int64_t first = 0; first < elements; first += kElements) {
      const int64_t count = std::min(kElements, elements - first);
      const Tensor weights = group.master().narrow(0, first, count);
      const Tensor average = states_[i].average.narrow(0, first, count);
      const Tensor old_weights = weights.clone();
      weights.copy_(average);
      average.copy_(old_weights);
    }
    if (group.compute_copy().defined()) group.compute_copy().copy_(group.master());
  }
}

}  // namespace strata::trainer
