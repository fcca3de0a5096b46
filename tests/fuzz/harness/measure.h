// SPDX-License-Identifier: MIT
// Measures what reading a file takes, in a process of its own.
#pragma once

#include <string>
#include <vector>

namespace strata::fuzz {

// Prints two lines for each file: the verdict with what is wrong with it, or that the process was killed; processor
// seconds and MiB above those of a process that reads nothing.
void measure(const std::vector<std::string>& paths);

}  // namespace strata::fuzz
