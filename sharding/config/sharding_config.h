// SPDX-License-Identifier: MIT
// The `sharding:` section: how parameters are sharded over ranks, gathered and reduced.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "configs/checks.h"
#include "configs/limits.h"

namespace strata::sharding {

// none: every rank holds all parameters. full: parameters are sharded over all ranks. hybrid: parameters are sharded
// within groups of shard_ranks ranks and replicated across groups.
enum class Strategy { none, full, hybrid };
constexpr std::array<std::string_view, 3> names(Strategy) { return {"none", "full", "hybrid"}; }

// reduced: each micro-batch is reduced into the gradient shard. full: full gradients are accumulated in float32 and
// reduced once per step.
enum class Accumulate { reduced, full };
constexpr std::array<std::string_view, 2> names(Accumulate) { return {"reduced", "full"}; }

// The queue in which parameters are all-gathered. shared: in one queue with all other collectives. separate: on their
// own communicator and stream. copy_engines: like separate, but the GPUs' copy engines move the data, so no SM is taken
// from compute.
enum class Gather { shared, separate, copy_engines };
constexpr std::array<std::string_view, 3> names(Gather) { return {"shared", "separate", "copy_engines"}; }

// What an all-gather sends of weights that are multiplied in 8 bits. compute: their values in precision.compute, of
// which each rank makes the codes. codes: their codes.
enum class GatherFormat { compute, codes };
constexpr std::array<std::string_view, 2> names(GatherFormat) { return {"compute", "codes"}; }

struct ShardingConfig {
  Strategy strategy = Strategy::full;
  int64_t shard_ranks = 0;
  bool reshard_after_forward = true;
  int64_t prefetch = 1;
  Accumulate accumulate = Accumulate::reduced;
  Gather gather = Gather::shared;
  GatherFormat gather_format = GatherFormat::compute;
  int64_t compare_replicas_every = 100;
  int64_t sequence = 1;

  // Returns the number of ranks that share one copy of the parameters.
  int64_t ranks_per_copy(int64_t ranks) const {
    switch (strategy) {
      case Strategy::none:
        return 1;
      case Strategy::full:
        return ranks;
      case Strategy::hybrid:
        return shard_ranks;
    }
    return ranks;  // unreachable: the switch is complete
  }

  // True if ranks that hold the same weights compare them. `copies`: the number of ranks with the same ones.
  bool compares_replicas(int64_t copies) const { return compare_replicas_every != 0 && copies > 1; }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("strategy", strategy,
               "none: parameters are replicated (DDP); full: sharded over all ranks (FSDP); hybrid: sharded within "
               "groups of shard_ranks ranks, replicated across groups");
    fields.add("shard_ranks", shard_ranks, "number of ranks that share one copy of the parameters (hybrid only)",
               configs::between(0, 1e5), "ranks");
    fields.add("reshard_after_forward", reshard_after_forward,
               "reshard the parameters of a layer after its forward and gather them again for its backward");
    fields.add("prefetch", prefetch, "number of layers that are gathered ahead of the one that computes",
               configs::between(0, 1000), "layers");
    fields.add("accumulate", accumulate,
               "reduced: reduce the gradients of layers after each micro-batch; full: accumulate full gradients in "
               "float32 and reduce them once per step, in float32 if a step has several micro-batches");
    fields.add("gather", gather,
               "shared: all-gathers use the queue of the reductions; separate: a communicator of their own; "
               "copy_engines: like separate, by the copy engines of GPUs instead of SMs (GPUs with peer access only)");
    fields.add("gather_format", gather_format,
               "compute: all weights are all-gathered in precision.compute; codes: those of linear layers in fp8 with "
               "scaling: current as codes of 8 bits; both give the same bits, on GPUs with run.deterministic");
    fields.add("compare_replicas_every", compare_replicas_every,
               "steps between comparisons of ranks that hold the same weights, which are also compared before each "
               "save; a difference ends the run with exit code 5 and names the rank; 0: never; without effect if no "
               "two ranks hold the same",
               configs::kNumberOfSteps, "steps");
    fields.add("sequence", sequence,
               "number of neighboring ranks that share each sequence of a language model (context parallelism): each "
               "computes a part of its tokens, and attention gathers keys and values; it must divide run.ranks, and "
               "twice as much must divide model.sequence",
               configs::between(1, 10000), "ranks");
  }
};

void check(const ShardingConfig& sharding, int64_t ranks, configs::Checks& checks);

}  // namespace strata::sharding
