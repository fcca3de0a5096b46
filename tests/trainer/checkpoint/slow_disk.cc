// SPDX-License-Identifier: MIT
// A library that a program loads before others: in the rank that STRATA_TEST_SLOW_RANK names, data need
// STRATA_TEST_SLOW_SECONDS to get to the disk. It stands for strace on machines without it.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

extern "C" int fdatasync(int file) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const slow = std::getenv("STRATA_TEST_SLOW_RANK");
  const char* const seconds = std::getenv("STRATA_TEST_SLOW_SECONDS");
  if (rank != nullptr && slow != nullptr && seconds != nullptr && std::strcmp(rank, slow) == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
  }
  return static_cast<int>(syscall(SYS_fdatasync, file));
}
