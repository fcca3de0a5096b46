// SPDX-License-Identifier: MIT
// The report of why a run ended: error.json in the run's folder, written by the first rank that fails. Ranks that fail
// as a consequence do not replace it.
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
  std::string hint;  // what the user can do; may be empty
};

// Writes `folder`/error.json unless it exists, so that the first cause is kept. Returns true if this was the first
// report. Never throws: if the folder cannot be written, it prints to stderr.
bool report_failure(const std::string& folder, const Failure& failure);

// Removes the report of an earlier run. Rank 0 calls this before the first communication of the ranks.
void remove_stale_report(const std::string& folder);

// Set the position that the watchdog, the crash handlers and the handler of early exits report. They are cheap enough
// for every phase of every step. `phase` must be a string literal.
void set_report_folder(const std::string& folder);
void set_report_rank(int rank);
void set_position(int64_t step, const char* phase);

// failure_here describes a failure of this process at its current position. report_failure writes it into the folder
// that was set above; without a folder it writes nothing.
Failure failure_here(ExitCode code, const std::string& message, const std::string& hint = "");
bool report_failure(const Failure& failure);
// Reports the failure and prints it to stderr, unless another rank has already reported a failure.
void print_failure(const Failure& failure);

// Installs handlers: SIGSEGV, SIGABRT, SIGFPE, SIGBUS and SIGILL print rank, step, phase and a backtrace and write
// error.json before they end the process as usual. SIGXFSZ is ignored, so that a write beyond the limit returns EFBIG.
// MPI_Init installs handlers of its own, so RankSession calls this function after MPI_Init. Stack overflows are
// reported in the thread that calls this, and in threads that have a CrashStack.
void install_crash_handlers();

}  // namespace strata::sharding
