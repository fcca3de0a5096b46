// SPDX-License-Identifier: MIT
// Refuses a file with an error that names its path and the problem.
#pragma once

#include <cstdint>
#include <string>

#include "base/errors.h"

namespace strata::trainer {

[[noreturn]] inline void fail(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, path + ": " + what);
}

inline std::string text(int64_t number) { return std::to_string(number); }  // a short name, for messages

}  // namespace strata::trainer
