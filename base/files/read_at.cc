// SPDX-License-Identifier: MIT
#include "base/files/read_at.h"

#include <unistd.h>

#include <cerrno>

namespace strata {

int64_t read_at(int file, uint64_t offset, void* into, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file, static_cast<char*>(into) + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return static_cast<int64_t>(done);
}

}  // namespace strata
