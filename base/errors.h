// SPDX-License-Identifier: MIT
// Errors that end a run. The exit code gives the kind of error, and the text says what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace strata {

enum class ExitCode {
  done = 0,
  configuration = 2,
  data = 3,
  storage = 4,
  numerics = 5,
  out_of_memory = 6,
  communication = 7,
  internal = 70,
  preempted = 75,  // stopped on request after saving a checkpoint; the run can be resumed
  interrupted = 130,
};

// Thrown if a run cannot continue. main() returns its exit code, and a training run writes it to error.json.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace strata
