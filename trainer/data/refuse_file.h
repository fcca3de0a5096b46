// SPDX-License-Identifier: MIT
// Refuses a file with an error that names its path and the problem.
#pragma once

#include <string>

#include "base/errors.h"

namespace strata::trainer {

[[noreturn]] inline void refuse_file(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, path + ": " + what);
}

}  // namespace strata::trainer
