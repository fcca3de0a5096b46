// SPDX-License-Identifier: MIT
#include "trainer/ledger/run_facts.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include "base/text/word_of.h"
#include "kernels/runtime/device_name.h"
#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {

Facts run_facts(const TrainerConfig& config, const std::string& data_fingerprint, at::Device device) {
  const RunConfig& run = config.run;
  const sharding::ShardingConfig& sharding = config.sharding;
  const std::string parts = sharding.sequence == 1 ? "" : ", each over " + std::to_string(sharding.sequence) + " ranks";
  Facts facts = {
      {kFactData, data_fingerprint},
      {kFactRanks, std::to_string(run.ranks)},
      {kFactMicroBatch, std::to_string(config.micro_batch)},
      {kFactSamples, shares_samples(config.model, config.data) ? "shared" : "split" + parts},
      {kFactRepeats, device.is_cpu() || run.deterministic ? "yes" : "no"},
      {"sharding",
       word_of(sharding.strategy) + " " + std::to_string(sharding.shard_ranks) + " " + word_of(sharding.accumulate)},
      {"deterministic", run.deterministic ? "true" : "false"},
      {"device", kernels::device_name(device)},
      {"LibTorch", kernels::torch_version()},
      {"kernels", kernels::kernel_version()},
  };
  if (device.is_cpu()) {
    facts["instructions"] = at::get_cpu_capability();
    facts["threads"] = std::to_string(at::get_num_threads());
  }
  return facts;
}

}  // namespace strata::trainer
