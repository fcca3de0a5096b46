// SPDX-License-Identifier: MIT
// Facts that the bits of a step depend on, besides the parts of a configuration that stay when a run is resumed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "trainer/config/trainer_config.h"
#include "trainer/ledger/ledger.h"

namespace strata::trainer {

// What a rank reads.
struct SampleFacts {
  std::string data_fingerprint;
  int64_t micro_batch = 0;
  bool are_shared = false;  // as shares_samples() says
};

// Returns the facts of a run on this rank: the fingerprint of its data, ranks, micro_batch, sharding, device,
// instructions and threads of a CPU, versions of LibTorch and of the kernels.
Facts run_facts(const RunConfig& run, const sharding::ShardingConfig& sharding, const SampleFacts& samples,
                at::Device device);

}  // namespace strata::trainer
