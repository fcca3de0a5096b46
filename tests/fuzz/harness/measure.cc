// SPDX-License-Identifier: MIT
#include "tests/fuzz/harness/measure.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include "tests/fuzz/harness/oracle.h"

namespace strata::fuzz {
namespace {

// A reader that takes more is killed, so that it cannot keep the machine of the test.
constexpr rlim_t kMostSeconds = 20;

struct Cost {
  double seconds, mebibytes;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Runs `work` in a child process. Returns nothing if the child was killed.
std::optional<Cost> cost_of(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit seconds = {kMostSeconds, kMostSeconds};
    setrlimit(RLIMIT_CPU, &seconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
    constexpr rlim_t kMostBytes = rlim_t{8} << 30;
    const rlimit bytes = {kMostBytes, kMostBytes};
    setrlimit(RLIMIT_DATA, &bytes);
#endif
    work();
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) return std::nullopt;
  return Cost{seconds_of(used.ru_utime) + seconds_of(used.ru_stime), static_cast<double>(used.ru_maxrss) / 1024};
}

void read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const Verdict verdict = run_target(bytes);
  std::printf("%s %s\n", verdict.accepted ? "accepted" : "refused", verdict.complaint.c_str());
}

}  // namespace

void measure(const std::vector<std::string>& paths) {
  const Cost nothing = cost_of([] {}).value();
  for (const std::string& path : paths) {
    const std::optional<Cost> cost = cost_of([&] { read_file(path); });
    if (cost) {
      std::printf("%.4f s %.1f MiB\n", cost->seconds, cost->mebibytes - nothing.mebibytes);
    } else {
      std::printf("killed\n%.4f s 0 MiB\n", static_cast<double>(kMostSeconds));
    }
  }
}

}  // namespace strata::fuzz
