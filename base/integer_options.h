// SPDX-License-Identifier: MIT
// Refuses integers on a command line that do not fit in the 64 bits of their option. CLI11 takes the nearest one
// instead, and 2^64 - 5 for -5 without a sign.
#pragma once

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace strata {

// Adds the check to each option that takes integers. What is no number is left to CLI11.
inline void check_integer_options(CLI::App& app) {
  const auto check = [&](CLI::Option* option, bool has_sign, const std::string& expected) {
    option->check([has_sign, expected](const std::string& text) {
      errno = 0;
      has_sign ? static_cast<void>(std::strtoll(text.c_str(), nullptr, 0))
               : static_cast<void>(std::strtoull(text.c_str(), nullptr, 0));
      const bool fits = errno != ERANGE && (has_sign || text.find('-') == std::string::npos);
      return fits ? "" : text + " does not fit; expected an integer from " + expected;
    });
  };
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) check(option, true, "-2^63 to 2^63 - 1");
    if (type.starts_with("UINT")) check(option, false, "0 to 2^64 - 1");
  }
}

}  // namespace strata
