// SPDX-License-Identifier: MIT
// Runs a command-line program: parses its arguments and calls its work. An error becomes one line on stderr and an exit
// code.
#pragma once

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <type_traits>

#include "base/errors.h"
#include "base/integer_options.h"
#include "base/text/printable.h"

namespace strata {

// `work` returns nothing or an exit code.
template <class Work>
int run_program(CLI::App& app, int count, char** arguments, Work work) {
  check_integer_options(app);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
  const auto fail = [&](const std::string& message, ExitCode code) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), printable_lines(message).c_str());
    return static_cast<int>(code);
  };
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return 0;
    } else {
      return static_cast<int>(work());
    }
  } catch (const Error& error) {
    return fail(error.what(), error.code());
  } catch (const c10::OutOfMemoryError& error) {
    return fail(error.what_without_backtrace(), ExitCode::out_of_memory);
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace(), ExitCode::internal);
  } catch (const std::exception& error) {
    return fail(error.what(), ExitCode::internal);
  }
}

}  // namespace strata
