// SPDX-License-Identifier: MIT
// The arena into which a save copies the shards of a model, against the prediction of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sharding/parameters/device_mesh.h"
#include "tests/sharding/mpi_main.h"
#include "tests/trainer/memory/counted_step.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/model/sharded_model.h"
#include "trainer/optimizer.h"
#include "trainer/prediction/memory_estimate.h"
#include "trainer/run_state.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

struct Bytes {
  int64_t taken = 0, predicted = 0;
  bool replica = false;
};

Bytes bytes_with(const std::vector<std::string>& overrides) {
  const TrainerConfig config = config_for(overrides);
  const sharding::DeviceMesh mesh = sharding::make_device_mesh(tests::world(), config.sharding);
  const auto task = make_task(config);
  ShardedModel model(config, *task, mesh, {.device = tests::device(), .initialized = false});
  Optimizer optimizer(config.optimizer, kernels::Level::aten, model.groups());
  const DeclaredModel declared = declared_model(config);
  Bytes bytes{.predicted = save_memory(buffer_rules(config), config.optimizer, declared.groups, declared.modules),
              .replica = mesh.replicate->rank() > 0};
  const std::vector<TensorPiece> pieces = pieces_of(model, optimizer, /*empty=*/bytes.replica);
  Snapshot snapshot;
  snapshot.reserve(pieces);
  bytes.taken = snapshot.bytes();
  snapshot.take(pieces);
  snapshot.wait();
  EXPECT_EQ(snapshot.bytes(), bytes.taken) << "the copy needed more than was reserved";
  return bytes;
}

// The sizes of this model are multiples of 64 elements. So one or two ranks pad nothing, and more pad the last shard.
TEST(SaveMemory, IsPredictedToTheByte) {
  const int64_t ranks = tests::world().size();
  const bool is_padded = ranks > 2 && tests::world().rank() == ranks - 1;
  for (const std::string more : {"run.seed=3", "optimizer.moving_average=0.9", "precision.compute=bfloat16"}) {
    const Bytes bytes = bytes_with({more});
    const double least = (is_padded ? 0.97 : 1) * static_cast<double>(bytes.predicted);
    EXPECT_LE(bytes.taken, bytes.predicted) << more;
    EXPECT_GE(static_cast<double>(bytes.taken), least) << more;
  }
}

TEST(SaveMemory, IsAtMostWhatIsPredictedWhereParametersArePadded) {
  const Bytes bytes = bytes_with(vision({}));
  EXPECT_LE(bytes.taken, bytes.predicted);
  EXPECT_GT(bytes.taken, 0.97 * static_cast<double>(bytes.predicted));
}

TEST(SaveMemory, HasTheHistoriesOfDelayedScalesOnRank0) {
  const Bytes plain = bytes_with({});
  for (const std::string steps : {"16", "5"}) {
    const Bytes bytes = bytes_with({"precision.linear={format: fp8, scaling: delayed, history: " + steps + "}"});
    EXPECT_GT(bytes.predicted, plain.predicted) << steps;
    EXPECT_EQ(bytes.taken, tests::world().rank() == 0 ? bytes.predicted : plain.taken) << steps;
  }
}

TEST(SaveMemory, IsTakenByTheFirstReplicaOnly) {
  const Bytes bytes = bytes_with({"sharding.strategy=none"});
  EXPECT_EQ(bytes.taken, bytes.replica ? 0 : bytes.predicted);
}

}  // namespace
}  // namespace strata::trainer
