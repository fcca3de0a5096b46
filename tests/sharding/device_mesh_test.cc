// SPDX-License-Identifier: MIT
#include "sharding/parameters/device_mesh.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "tests/sharding/mpi_main.h"

namespace strata::sharding {
namespace {

using tests::session;

// Returns which ranks of the run are in the group, as the sum of 10^rank over its members.
int64_t members(Communicator& group) {
  int64_t mark = 1;
  for (int i = 0; i < session().rank(); ++i) mark *= 10;
  const at::Tensor sum = at::full({1}, mark, at::dtype(at::kLong).device(tests::device()));
  group.all_reduce(sum, "members").wait();
  return sum.item<int64_t>();
}

TEST(DeviceMeshTest, GroupsOfEveryStrategy) {
  const auto all = session().communicator();
  const int ranks = all->size(), rank = all->rank();
  for (int size = 1; size <= ranks; ++size) {
    ShardingConfig config;
    config.strategy = Strategy::hybrid;
    config.shard_ranks = size;
    if (ranks % size != 0) {
      try {
        make_device_mesh(*all, config);
        ADD_FAILURE() << size << " does not divide " << ranks;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::configuration);
      }
      continue;
    }
    int64_t shard = 0, replicate = 0;
    for (int64_t other = 0, mark = 1; other < ranks; ++other, mark *= 10) {
      if (other / size == rank / size) shard += mark;
      if (other % size == rank % size) replicate += mark;
    }
    auto expect_groups = [&](const ShardingConfig& its_config) {
      const DeviceMesh mesh = make_device_mesh(*all, its_config);
      EXPECT_EQ(mesh.shard->size(), size);
      EXPECT_EQ(mesh.shard->rank(), rank % size);
      EXPECT_EQ(mesh.replicate->size(), ranks / size);
      EXPECT_EQ(mesh.replicate->rank(), rank / size);
      EXPECT_EQ(members(*mesh.shard), shard);
      EXPECT_EQ(members(*mesh.replicate), replicate);
    };
    expect_groups(config);
    if (size == 1) expect_groups({.strategy = Strategy::none});
    if (size == ranks) expect_groups({.strategy = Strategy::full});
  }
}

TEST(DeviceMeshTest, NeighborsShareSequences) {
  const auto all = session().communicator();
  const int ranks = all->size(), rank = all->rank();
  EXPECT_EQ(make_device_mesh(*all, {}).sequence, nullptr);
  for (int size = 2; size <= ranks + 1; ++size) {
    if (ranks % size != 0) {
      EXPECT_THROW(make_device_mesh(*all, {.sequence = size}), Error) << size;
      continue;
    }
    const DeviceMesh mesh = make_device_mesh(*all, {.sequence = size});
    int64_t neighbors = 0;
    for (int64_t other = 0, mark = 1; other < ranks; ++other, mark *= 10) {
      if (other / size == rank / size) neighbors += mark;
    }
    EXPECT_EQ(mesh.sequence->rank(), rank % size);
    EXPECT_EQ(members(*mesh.sequence), neighbors);
    EXPECT_EQ(mesh.shard->size(), ranks);  // parameters are sharded over all ranks
  }
}

}  // namespace
}  // namespace strata::sharding
