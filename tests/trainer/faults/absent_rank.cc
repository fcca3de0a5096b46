// SPDX-License-Identifier: MIT
// A library that a program loads before others: the rank that STRATA_TEST_ABSENT_RANK names stops where it would start
// NCCL, so the other ranks wait for it inside of NCCL.
#include <dlfcn.h>

#include <csignal>
#include <cstdlib>

struct UniqueId {  // as ncclUniqueId
  char bytes[128];
};

extern "C" int ncclCommInitRankConfig(void** communicator, int ranks, UniqueId id, int rank, void* config) {
  const char* const absent = std::getenv("STRATA_TEST_ABSENT_RANK");
  if (absent != nullptr && std::atoi(absent) == rank) std::raise(SIGSTOP);
  static const auto start =
      reinterpret_cast<decltype(&ncclCommInitRankConfig)>(dlsym(RTLD_NEXT, "ncclCommInitRankConfig"));
  return start(communicator, ranks, id, rank, config);
}
