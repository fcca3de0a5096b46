// SPDX-License-Identifier: MIT
#include "trainer/prediction/memory_estimate.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/trainer/config/config_texts.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

TEST(MemoryEstimate, FollowsTheFormula) {
  // One block: norms 2 x 64, qkv 192 x 64, output 64 x 64, gate_up 256 x 64, down 64 x 128: 41,088 elements, all
  // aligned. Root: embedding 256 x 64 and a norm of 64: 16,448, padded to 16,512 for two ranks.
  const int64_t block = 41'088, root = 16'512, all = 4 * block + root, unpadded = all - 64;
  const auto bytes = [](const std::vector<std::string>& overrides) {
    const TrainerConfig config = parse_trainer_config("run.yaml", config_with(0, ""), overrides).config;
    const auto [groups, modules] = declared_model(config);
    std::map<std::string, int64_t> result;
    for (const MemoryClass& part : memory_per_rank(buffer_rules(config), config.optimizer, groups, modules)) {
      result[part.name] = part.bytes;
    }
    return result;
  };
  using Classes = std::map<std::string, int64_t>;
  EXPECT_EQ(bytes({"run.ranks=1"}),
            (Classes{{"master weights", 4 * unpadded}, {"moments", 8 * unpadded}, {"gradients", 4 * unpadded}}));
  EXPECT_EQ(bytes({"run.ranks=2", "precision={compute: bfloat16, reduce: float32}"}),
            (Classes{{"master weights", 2 * all},
                     {"moments", 4 * all},
                     {"gradients", 2 * all},
                     {"compute copy", all},
                     {"weight slots", 2 * block * 2},
                     {"gradient slots", 2 * block * 4},
                     {"weights outside of blocks, in full", root * 2},
                     {"gradients outside of blocks, in full", root * 4}}));
  // One micro-batch stays as it was reduced. The sum of several is float32: in the shard, or in full with accumulate:
  // full.
  const std::string narrow = "precision={compute: bfloat16, reduce: bfloat16}";
  EXPECT_EQ(bytes({"run.ranks=2", narrow, "micro_batch=8"}).at("gradients"), all);
  EXPECT_EQ(bytes({"run.ranks=2", narrow}).at("gradients"), 2 * all);
  EXPECT_EQ(bytes({"run.ranks=2", narrow}).at("gradients outside of blocks, in full"), root * 2);
  Classes full = bytes({"run.ranks=2", narrow, "sharding.accumulate=full"});
  EXPECT_EQ(full.at("gradients"), 2 * all);
  EXPECT_EQ(full.at("gradient slots"), 4 * block * 4);
  EXPECT_EQ(full.at("gradients outside of blocks, in full"), root * 4);
  full = bytes({"run.ranks=2", narrow, "sharding.accumulate=full", "micro_batch=8"});
  EXPECT_EQ(full.at("gradients"), all);
  EXPECT_EQ(full.at("gradient slots"), 4 * block * 2);
  EXPECT_EQ(bytes({"run.ranks=2", "optimizer.moving_average=0.9"}).at("moving average"), 2 * all);
  EXPECT_EQ(bytes({"sharding.reshard_after_forward=false"}).at("weight slots"), 4 * block * 4);
  EXPECT_EQ(bytes({"sharding.accumulate=full"}).at("gradient slots"), 4 * block * 4);
  EXPECT_EQ(bytes({"sharding.prefetch=9"}).at("weight slots"), 4 * block * 4);
  EXPECT_EQ(bytes({"run.ranks=4", "sharding={strategy: hybrid, shard_ranks: 2}"}).at("moments"), 4 * all);
  EXPECT_EQ(bytes({"sharding.strategy=none"}).at("moments"), 8 * unpadded);
}

TEST(MemoryEstimate, ASaveCopiesMastersMomentsAndAverage) {
  const int64_t unpadded = 4 * 41'088 + 16'448, all = unpadded + 64;  // as above
  const auto bytes = [](const std::vector<std::string>& overrides) {
    const TrainerConfig config = parse_trainer_config("run.yaml", config_with(0, ""), overrides).config;
    return save_memory(buffer_rules(config), config.optimizer, declared_groups(config.model),
                       declared_model(config).modules);
  };
  EXPECT_EQ(bytes({"run.ranks=1"}), 12 * unpadded);
  EXPECT_EQ(bytes({"run.ranks=2"}), 6 * all);
  EXPECT_EQ(bytes({"run.ranks=2", "optimizer.moving_average=0.9"}), 8 * all);
  EXPECT_EQ(bytes({"run.ranks=4", "sharding={strategy: hybrid, shard_ranks: 2}"}), 6 * all);
  EXPECT_EQ(bytes({"run.ranks=2", "sharding.strategy=none"}), 12 * unpadded);
}

}  // namespace
}  // namespace strata::trainer
