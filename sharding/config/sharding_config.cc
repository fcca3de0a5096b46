// SPDX-License-Identifier: MIT
#include "sharding/config/sharding_config.h"

#include <string>

namespace strata::sharding {

namespace {

void check_sequence(const ShardingConfig& sharding, int64_t ranks, configs::Checks& checks) {
  if (!checks.can_check({"sequence", "/run.ranks"}) || ranks % sharding.sequence == 0) return;
  checks.fail("sequence", "expected a divisor of run.ranks " + std::to_string(ranks) + ", got " +
                              std::to_string(sharding.sequence));
}

}  // namespace

void check(const ShardingConfig& sharding, int64_t ranks, configs::Checks& checks) {
  check_sequence(sharding, ranks, checks);
  if (!checks.can_check({"strategy", "shard_ranks"})) return;
  if (sharding.strategy != Strategy::hybrid) {
    if (sharding.shard_ranks != 0) checks.fail("shard_ranks", "belongs to strategy: hybrid; leave it out, or set 0");
    return;
  }
  if (sharding.shard_ranks == 0) {
    checks.fail("shard_ranks", "missing; strategy: hybrid needs the number of ranks that share one copy");
  } else if (checks.can_check({"/run.ranks"}) && ranks % sharding.shard_ranks != 0) {
    checks.fail("shard_ranks", "run.ranks " + std::to_string(ranks) + " = copies x shard_ranks " +
                                   std::to_string(sharding.shard_ranks) + " has no whole number of copies");
  }
}

}  // namespace strata::sharding
