// SPDX-License-Identifier: MIT
// Facts that the bits of a step depend on, besides the parts of a configuration that stay when a run is resumed.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "trainer/config/trainer_config.h"
#include "trainer/ledger/ledger.h"

namespace strata::trainer {

// Returns the facts of a run on this rank: the fingerprint of its data, ranks, micro_batch, sharding, device,
// instructions and threads of a CPU, versions of LibTorch and of the kernels.
Facts run_facts(const TrainerConfig& config, const std::string& data_fingerprint, at::Device device);

}  // namespace strata::trainer
