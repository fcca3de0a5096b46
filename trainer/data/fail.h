// SPDX-License-Identifier: MIT
// How readers refuse a file: its path, and what is wrong with it.
#pragma once

#include <cstdint>
#include <string>

#include "base/errors.h"

namespace strata::trainer {

[[noreturn]] inline void fail(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, path + ": " + what);
}

inline std::string text(int64_t number) { return std::to_string(number); }  // a short word for long sentences

}  // namespace strata::trainer
