// SPDX-License-Identifier: MIT
// The Bootstrap that all tests of a binary share when they run under mpirun: see mpi_test in tools/bazel/mpi_test.bzl.
#pragma once

#include "sharding/bootstrap.h"

namespace strata::tests {

sharding::Bootstrap& bootstrap();

// Of all ranks, made when it is first asked for; that takes NCCL a second.
sharding::Communicator& world();

// Where tensors of the tests live: on the CPU, or with STRATA_TEST_DEVICE=cuda on this rank's GPU.
at::Device device();

}  // namespace strata::tests
