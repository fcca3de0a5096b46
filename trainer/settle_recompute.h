// SPDX-License-Identifier: MIT
// The key `memory_budget`: a budget per rank, which decides what layers recompute.
#pragma once

#include "sharding/rank_session.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Fills in gradient_checkpointing if `memory_budget` is a number and gradient_checkpointing is none. The value comes
// from resolved.yaml in the run's folder if it has the same configuration, otherwise from traces of steps: it is the
// cheapest that fits with a margin, and is printed. Throws (out_of_memory) if nothing fits, or if a
// gradient_checkpointing that was set or read does not fit. Each rank traces its own part of a graph, and the one that
// takes the most decides. Collective; call it after start_rank, which resolves device and levels.
void settle_recompute(LoadedConfig& loaded, sharding::RankSession& session);

}  // namespace strata::trainer
