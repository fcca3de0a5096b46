// SPDX-License-Identifier: MIT
// The report of why a run ended: error.json in the run's folder, written by the first rank that fails and by no
// follower.
#pragma once

#include <cstdint>
#include <string>

#include "base/errors.h"

namespace strata::sharding {

struct Failure {
  ExitCode code = ExitCode::internal;
  int rank = 0;
  int64_t step = 0;
  std::string phase;
  std::string message;
  std::string hint;  // what to do about it; may be empty
};

// Writes `folder`/error.json unless one exists: the first cause wins. Tells whether this was the first. Never throws: a
// folder that cannot be written is said on stderr.
bool report_failure(const std::string& folder, const Failure& failure);

// Removes what an earlier run left. Rank 0 calls it before the ranks first meet.
void remove_stale_report(const std::string& folder);

// Where this process is, for those who report its end: the watchdog, the crash handlers, the handler of early exits.
// Cheap enough for every phase of every step; `phase` is a string literal.
void set_report_folder(const std::string& folder);
void set_report_rank(int rank);
void set_position(int64_t step, const char* phase);

// A failure of this process, here and now; and its report into the folder set above (nothing is written before it is
// set).
Failure failure_here(ExitCode code, const std::string& message, const std::string& hint = "");
bool report_failure(const Failure& failure);
// Reports it and says it on stderr, unless it is the follower of another rank's failure whose report is there.
void tell_failure(const Failure& failure);

// From now on SIGSEGV, SIGABRT, SIGFPE, SIGBUS and SIGILL print rank, step, phase and a backtrace and leave error.json
// before they end the process as usual; SIGXFSZ is ignored, so that a write beyond the limit returns EFBIG. MPI_Init
// installs handlers of its own: Bootstrap calls this again after it.
void install_crash_handlers();

}  // namespace strata::sharding
