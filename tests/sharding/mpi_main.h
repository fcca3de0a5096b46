// SPDX-License-Identifier: MIT
// The RankSession that all tests of a binary share under mpirun: see mpi_test in tools/bazel/mpi_test.bzl.
#pragma once

#include "sharding/rank_session.h"

namespace strata::tests {

sharding::RankSession& session();

// Returns the communicator of all ranks. The first call constructs it, which takes NCCL a second.
sharding::Communicator& world();

// Returns the device of test tensors: the CPU, or this rank's GPU with STRATA_TEST_DEVICE=cuda.
at::Device device();

}  // namespace strata::tests
