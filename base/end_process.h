// SPDX-License-Identifier: MIT
// Ends a program whose work is done, without the destructors of static objects.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/errors.h"

namespace strata {

// Returns false if something that was printed is lost, such as on a full disk. A stream keeps errors of earlier writes.
inline bool flush_output() {
  const bool streamed = std::cout.flush().good(), flushed = std::fflush(nullptr) == 0;
  return streamed && flushed && std::ferror(stdout) == 0;
}

// If output is lost, a code of 0 becomes ExitCode::storage. The destructors of LibTorch remove its 3,000 operators one
// by one, which takes 0.15 s: a third of the processor time of a short program. Sanitizers and profilers of GPUs write
// their reports at a usual exit.
[[noreturn]] inline void end_process(int code) {
  if (!flush_output() && code == 0) {
    std::fputs("standard output: not all of it could be written; is the disk full, or was a pipe closed?\n", stderr);
    code = static_cast<int>(ExitCode::storage);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);
#else
  const bool has_driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  if (has_driver) std::exit(code);
  ::_exit(code);
#endif
}

}  // namespace strata
