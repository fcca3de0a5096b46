// SPDX-License-Identifier: MIT
// The start and the end of every program whose ranks compute together: threads, determinism, device, exit code.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "base/errors.h"
#include "sharding/rank_session.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws (configuration) if the ranks differ in number, configuration or build, if the requested device is missing, or
// if an op has no kernel at its level on the device. Prints the device and writes it into `loaded`, also for `auto`.
// Collective.
void start_rank(LoadedConfig& loaded, sharding::RankSession& session);

// The threads of each of `local_ranks` ranks of this machine: `run.threads`, or OMP_NUM_THREADS, or the cores on which
// this process may run, divided by the ranks.
int64_t threads_of(const RunConfig& run, int64_t local_ranks);

// The code that computes on a rank: the versions of LibTorch and of the kernels, and the transport of collectives with
// its own.
struct Build {
  std::string libtorch, kernels, transport;
};

// Throws (configuration) on all ranks, with both values, if the builds of the ranks differ. Collective.
void require_equal_builds(const sharding::RankSession& session, const Build& build);

// Thrown in place of an exception that was reported where it was caught, because what it unwinds waits for the disk.
class ReportedFailure : public std::exception {
 public:
  explicit ReportedFailure(int exit_code) : exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }
  const char* what() const noexcept override { return "a failure that is reported already"; }

 private:
  int exit_code_;
};

// Returns the exit code of `run`. An exception of `run` is reported as the failure of this rank, unless it is a
// ReportedFailure.
int exit_code_of(const std::function<ExitCode()>& run);

}  // namespace strata::trainer
