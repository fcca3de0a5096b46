// SPDX-License-Identifier: MIT
// Runs a program: its arguments, then its work; what goes wrong becomes a line and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "configs/errors.h"

namespace strata::trainer {

template <class Work>
int run_program(CLI::App& app, int count, char** arguments, Work work) {
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
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

}  // namespace strata::trainer
