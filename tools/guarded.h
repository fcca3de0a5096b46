// SPDX-License-Identifier: MIT
// Runs the work of a program and turns what it throws into a line and an exit code.
#pragma once

#include <cstdio>
#include <exception>

#include "configs/errors.h"

namespace strata::tools {

template <class Work>
int guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace strata::tools
