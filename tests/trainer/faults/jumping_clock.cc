// SPDX-License-Identifier: MIT
// A library that a program loads before others: its wall clock is that of the machine plus the seconds (int64) that the
// file STRATA_TEST_CLOCK holds, which may change at any time. Other clocks and the kernel keep their time, so a wait
// until a time of the wall clock ends too early or too late.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Seconds = std::atomic<int64_t>;
const Seconds* added = nullptr;

__attribute__((constructor)) void find_file() {
  const char* const path = std::getenv("STRATA_TEST_CLOCK");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  void* const memory = file < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(Seconds), PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::abort();
  ::close(file);
  added = static_cast<const Seconds*>(memory);
}

int read_clock(clockid_t clock, timespec* now) {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && added != nullptr && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += added->load();
  }
  return static_cast<int>(failed);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept { return read_clock(clock, now); }

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec precise{};
  const int failed = read_clock(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return failed;
}

time_t time(time_t* now) noexcept {
  timespec precise{};
  read_clock(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}

}  // extern "C"
