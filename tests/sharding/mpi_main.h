// SPDX-License-Identifier: MIT
// The Bootstrap that all tests of a binary share when they run under mpirun: see mpi_test in tools/bazel/mpi_test.bzl.
#pragma once

#include "sharding/bootstrap.h"

namespace strata::tests {

sharding::Bootstrap& bootstrap();

}  // namespace strata::tests
