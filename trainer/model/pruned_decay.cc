// SPDX-License-Identifier: MIT
#include "trainer/model/pruned_decay.h"

#include <ATen/ops/mul.h>

#include <algorithm>
#include <string>

#include "kernels/sparsity/prune.h"

namespace strata::trainer {

PrunedDecay::PrunedDecay(const modules::SparsityConfig& sparsity, const std::vector<modules::DeclaredModule>& modules,
                         const std::vector<sharding::ShardedParameterGroup*>& groups)
    : decay_(sparsity.is_on() ? sparsity.decay : 0), mask_(sparsity.mask) {
  if (!is_on()) return;
  const std::vector<std::string> names = pruned_weights(sparsity, modules);
  constexpr int64_t kElements = 1 << 22;  // at a time, so that temporary tensors are small
  for (auto* group : groups) {
    group->for_each_piece([&](const auto& entry, int64_t /*parameter_offset*/, int64_t shard_offset, int64_t count) {
      if (std::ranges::find(names, entry.name) == names.end()) return;
      // A transposable mask has groups of four rows, which are whole because the rank has all of the weight.
      const int64_t width = mask_ == kernels::PruneMask::rows ? kernels::kPruneGroup : entry.shape.back();
      const int64_t whole = kernels::kPruneGroup * width, most = std::max<int64_t>(1, kElements / whole) * whole;
      for (int64_t first = 0; first < count; first += most) {
        pieces_.push_back({group, shard_offset + first, std::min(most, count - first), width});
      }
    });
  }
}

void PrunedDecay::add_to_gradients(const Tensor& factor) const {
  const Tensor scale = at::mul(factor, decay_);
  for (const auto& [group, first, count, width] : pieces_) {
    const auto piece_of = [first = first, count = count, width = width](const Tensor& shard) {
      return shard.narrow(0, first, count).view({-1, width});
    };
    const Tensor master = piece_of(group->master()), gradient = piece_of(group->gradient());
    const Tensor& copy = group->compute_copy();
    const Tensor kept_mask = kernels::kept_of_four(copy.defined() ? piece_of(copy) : master, mask_);
    gradient.add_(master.masked_fill(kept_mask, 0).mul_(scale));
  }
}

}  // namespace strata::trainer
