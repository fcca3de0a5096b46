// SPDX-License-Identifier: MIT
// The programs that are one executable, tools/programs.cc: most of them need all kernels, which are linked once. What
// would be main is `<name>_main`, and it runs if the executable is started by the name `<name>`. `train` and `validate`
// are executables of their own: the tests that run them are then not repeated whenever a tool changes.
#pragma once

// Calls X(name) for each program. tools/bazel/program.bzl says where else a new one is named.
#define STRATA_PROGRAMS(X) \
  X(bench_generate)        \
  X(bench_images)          \
  X(bench_kernels)         \
  X(bench_modules)         \
  X(bench_neighbors)       \
  X(bench_step)            \
  X(call_times)            \
  X(export)                \
  X(generate)              \
  X(import)                \
  X(levels)                \
  X(op_facts)              \
  X(plan_kernels)          \
  X(replay)                \
  X(sensitivity)

namespace strata::programs {

#define STRATA_DECLARE(name) int name##_main(int count, char** arguments);
STRATA_PROGRAMS(STRATA_DECLARE)
#undef STRATA_DECLARE

}  // namespace strata::programs
