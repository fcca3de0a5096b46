// SPDX-License-Identifier: MIT
// What `memory` means: how much a step may take decides which layers compute again what they do not keep.
#pragma once

#include "sharding/bootstrap.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Collective, after start_rank. Where `memory` is a number and gradient_checkpointing is none, fills in the latter: as
// resolved.yaml in the run's folder has it, when that is of the same configuration; otherwise from a trial, which is
// printed. Throws (out_of_memory) when nothing fits, or what gradient_checkpointing or that file says does not.
void settle_memory(LoadedConfig& loaded, sharding::Bootstrap& bootstrap);

}  // namespace strata::trainer
