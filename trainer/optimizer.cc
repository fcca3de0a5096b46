// SPDX-License-Identifier: MIT
#include "trainer/optimizer.h"

#include <ATen/ops/zeros_like.h>

namespace strata::trainer {

Optimizer::Optimizer(const OptimizerConfig& config, kernels::Level level,
                     const std::vector<sharding::ShardedParameterGroup*>& groups)
    : config_(config), level_(level), groups_(groups) {
  for (auto* group : groups_) moments_.push_back({at::zeros_like(group->master()), at::zeros_like(group->master())});
}

void Optimizer::step(const kernels::AdamwScalars& scalars) {
  const AdamW& adamw = std::get<AdamW>(config_.type);
  for (size_t i = 0; i < groups_.size(); ++i) {
    auto& group = *groups_[i];
    const int64_t elements = group.master().numel();
    const int64_t decayed = group.layout().decayed_in_shard(group.shard_rank());
    const auto update = [&](int64_t first, int64_t count, double weight_decay) {
      if (count == 0) return;
      const auto part = [&](const Tensor& shard) { return shard.defined() ? shard.narrow(0, first, count) : shard; };
      Tensor master = part(group.master()), first_moment = part(moments_[i].first);
      Tensor second_moment = part(moments_[i].second), compute_copy = part(group.compute_copy());
      kernels::adamw(master, first_moment, second_moment, part(group.gradient()), compute_copy, scalars,
                     {adamw.betas[0], adamw.betas[1], adamw.epsilon, weight_decay}, level_);
    };
    update(0, decayed, config_.weight_decay);
    update(decayed, elements - decayed, 0);
  }
}

int64_t Optimizer::bytes() const {
  int64_t sum = 0;
  for (const Moments& moments : moments_) sum += static_cast<int64_t>(moments.first.nbytes() + moments.second.nbytes());
  return sum;
}

}  // namespace strata::trainer
