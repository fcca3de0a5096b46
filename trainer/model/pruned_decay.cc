// SPDX-License-Identifier: MIT
#include "trainer/model/pruned_decay.h"

#include <ATen/ops/mul.h>

#include <algorithm>
#include <string>

#include "kernels/linear/prune.h"
#include "kernels/linear/prune_group.h"

namespace strata::trainer {

PrunedDecay::PrunedDecay(const modules::SparsityConfig& sparsity, const std::vector<modules::DeclaredModule>& modules,
                         const std::vector<sharding::ShardedParameterGroup*>& groups)
    : decay_(sparsity.is_on() ? sparsity.decay : 0) {
  if (!is_on()) return;
  const std::vector<std::string> names = pruned_weights(sparsity, modules);
  constexpr int64_t kElements = 1 << 22;  // at a time, so that temporary tensors are small
  for (auto* group : groups) {
    group->for_each_piece([&](const auto& entry, int64_t /*parameter_offset*/, int64_t shard_offset, int64_t count) {
      if (std::ranges::find(names, entry.name) == names.end()) return;
      for (int64_t first = 0; first < count; first += kElements) {
        pieces_.push_back({group, shard_offset + first, std::min(kElements, count - first)});
      }
    });
  }
}

void PrunedDecay::add_to_gradients(const Tensor& factor) const {
  const Tensor scale = at::mul(factor, decay_);
  for (const auto& [group, first, count] : pieces_) {
    const auto piece_of = [first = first, count = count](const Tensor& shard) {
      return shard.narrow(0, first, count).view({-1, kernels::kPruneGroup});
    };
    const Tensor master = piece_of(group->master()), gradient = piece_of(group->gradient());
    const Tensor& copy = group->compute_copy();
    const Tensor kept_mask = kernels::kept_of_four(copy.defined() ? piece_of(copy) : master);
    gradient.add_(master.masked_fill(kept_mask, 0).mul_(scale));
  }
}

}  // namespace strata::trainer
