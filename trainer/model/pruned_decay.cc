// SPDX-License-Identifier: MIT
#include "trainer/model/pruned_decay.h"

#include <ATen/ops/mul.h>

#include <algorithm>
#include <string>

#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/prune_group.h"

namespace strata::trainer {

PrunedDecay::PrunedDecay(const modules::SparsityConfig& sparsity, const std::vector<modules::DeclaredModule>& modules,
                         const std::vector<sharding::ShardedParameterGroup*>& groups)
    : decay_(sparsity.is_on() ? sparsity.decay : 0) {
  if (!is_on()) return;
  const std::vector<std::string> names = pruned_weights(sparsity, modules);
  constexpr int64_t kElements = 1 << 22;  // at a time, so that temporary tensors are small
  for (auto* group : groups) {
    group->for_each_piece([&](const auto& entry, int64_t /*in_parameter*/, int64_t in_shard, int64_t count) {
      if (std::ranges::find(names, entry.name) == names.end()) return;
      for (int64_t first = 0; first < count; first += kElements) {
        pieces_.push_back({group, in_shard + first, std::min(kElements, count - first)});
      }
    });
  }
}

void PrunedDecay::add_to_gradients(const Tensor& factor) const {
  const Tensor scale = at::mul(factor, decay_);
  for (const auto& [group, first, count] : pieces_) {
    const auto part = [first = first, count = count](const Tensor& shard) {
      return shard.narrow(0, first, count).view({-1, kernels::kPruneGroup});
    };
    const Tensor master = part(group->master()), gradient = part(group->gradient());
    const Tensor& copy = group->compute_copy();
    const Tensor kept = kernels::kept_of_four(copy.defined() ? part(copy) : master);
    gradient.add_(master.masked_fill(kept, 0).mul_(scale));
  }
}

}  // namespace strata::trainer
