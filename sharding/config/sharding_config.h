// SPDX-License-Identifier: MIT
// The `sharding:` section: which rank holds which part of the parameters, and what else is kept.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "configs/checks.h"
#include "configs/limits.h"

namespace strata::sharding {

// none: every rank holds everything. full: sharded over all ranks. hybrid: sharded inside groups of shard_ranks ranks,
// replicated across groups.
enum class Strategy { none, full, hybrid };
constexpr std::array<std::string_view, 3> names(Strategy) { return {"none", "full", "hybrid"}; }

// reduced: each micro-batch is reduced into the gradient shard. full: full gradients are kept and reduced once.
enum class Accumulate { reduced, full };
constexpr std::array<std::string_view, 2> names(Accumulate) { return {"reduced", "full"}; }

// How full parameters come together. shared: in the queue of all collectives. separate: on a communicator and a stream
// of their own. copy_engines: so, and moved by the GPUs' copy engines, which take no multiprocessor from the compute.
enum class Gather { shared, separate, copy_engines };
constexpr std::array<std::string_view, 3> names(Gather) { return {"shared", "separate", "copy_engines"}; }

struct ShardingConfig {
  Strategy strategy = Strategy::full;
  int64_t shard_ranks = 0;
  bool reshard_after_forward = true;
  int64_t prefetch = 1;
  Accumulate accumulate = Accumulate::reduced;
  Gather gather = Gather::shared;

  // Ranks that share one copy of the parameters.
  int64_t ranks_per_copy(int64_t ranks) const {
    return strategy == Strategy::none ? 1 : strategy == Strategy::full ? ranks : shard_ranks;
  }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("strategy", strategy, "none: replicated; full: sharded over all ranks; hybrid: inside groups of ranks");
    fields.add("shard_ranks", shard_ranks, "ranks that share one copy of the parameters (hybrid only)",
               configs::kNonNegative, "ranks");
    fields.add("reshard_after_forward", reshard_after_forward,
               "release a layer's full parameters between its forward and its backward");
    fields.add("prefetch", prefetch, "layers gathered ahead of the one that computes", configs::between(0, 1000),
               "layers");
    fields.add("accumulate", accumulate,
               "reduced: reduce every micro-batch; full: keep full gradients and reduce once a step");
    fields.add("gather", gather,
               "all-gathers share a queue with the reductions, have a communicator of their own (separate), or also go "
               "by copy engines instead of kernels (GPUs only)");
  }
};

void check(const ShardingConfig& sharding, int64_t ranks, configs::Checks& checks);

}  // namespace strata::sharding
