// SPDX-License-Identifier: MIT
// A library for LD_PRELOAD. write() writes at most STRATA_TEST_WRITE_BYTES bytes in each call, which POSIX allows.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

extern "C" ssize_t write(int file, const void* bytes, size_t count) {
  using Write = ssize_t(int, const void*, size_t);
  static Write* const all_bytes = reinterpret_cast<Write*>(dlsym(RTLD_NEXT, "write"));
  static const size_t most = std::strtoull(std::getenv("STRATA_TEST_WRITE_BYTES"), nullptr, 10);
  return all_bytes(file, bytes, std::min(count, most));
}
