// SPDX-License-Identifier: MIT
// How much memory of the host this process has in use.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace strata::trainer {

// Resident set, in bytes (/proc/self/statm).
inline int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace strata::trainer
