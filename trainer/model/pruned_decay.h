// SPDX-License-Identifier: MIT
// The decay of pruned weights in SR-STE (Zhou et al., "Learning N:M Fine-grained Structured Sparse Neural Networks From
// Scratch", 2021, section 3.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "modules/config/module.h"
#include "modules/config/sparsity_config.h"
#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::trainer {

using at::Tensor;

// It works on the shards of this rank, once in a step and after the sum over micro-batches and ranks, so `decay` means
// the same for any number of them. Groups of four lie in one shard, because shards and parameters start at multiples of
// 64 elements. With a transposable mask a rank must have whole weights, which check() of TrainerConfig demands.
class PrunedDecay {
 public:
  PrunedDecay(const modules::SparsityConfig& sparsity, const std::vector<modules::DeclaredModule>& modules,
              const std::vector<sharding::ShardedParameterGroup*>& groups);

  // The same on all ranks, because they sum a count for the factor together. A rank may hold no pruned weight.
  bool is_on() const { return decay_ != 0; }
  // Adds factor * decay * (1 - mask) * W to the gradient of each pruned weight. `factor` (fp32, 0-dim) is what the
  // gradients are multiplied by, such as the loss scale. W is the fp32 master weight, and the mask is the mask of the
  // weight in its compute type, which the layers prune.
  void add_to_gradients(const Tensor& factor) const;

 private:
  struct Piece {
    sharding::ShardedParameterGroup* group;
    int64_t first, count;  // in the shard
    int64_t width;         // of the rows that the mask sees
  };
  double decay_;  // 0: nothing is pruned, or pruned weights have no decay
  kernels::PruneMask mask_;
  std::vector<Piece> pieces_;
};

}  // namespace strata::trainer
