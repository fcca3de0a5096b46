// SPDX-License-Identifier: MIT
#include "base/end_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

#include "base/errors.h"

namespace strata {
namespace {

bool announced = false;

struct Announced {
  ~Announced() {
    if (announced && ::write(STDOUT_FILENO, "destroyed", 9) != 9) ::_exit(1);
  }
};
const Announced at_exit;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kUsualExit = true;
#else
constexpr bool kUsualExit = false;
#endif

TEST(EndProcess, WritesWhatIsInBuffersAndRunsNoDestructors) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], STDOUT_FILENO);
    announced = true;
    std::printf("printed, ");
    std::cout << "streamed, ";
    end_process(7);
  }
  ::close(pipe_ends[1]);
  std::string said;
  std::array<char, 64> bytes{};
  for (ssize_t count = 0; (count = ::read(pipe_ends[0], bytes.data(), bytes.size())) > 0;) {
    said.append(bytes.data(), static_cast<size_t>(count));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_NE(said.find("printed, streamed, "), std::string::npos) << said;
  EXPECT_EQ(said.find("destroyed") != std::string::npos, kUsualExit) << said;
}

// Returns the exit code of a process that prints to a full disk, and ends with `code`.
int code_on_a_full_disk(int code, const std::function<void()>& print) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    print();
    end_process(code);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(EndProcess, ALostOutputIsNoSuccess) {
  const int storage = static_cast<int>(ExitCode::storage);
  EXPECT_EQ(code_on_a_full_disk(0, [] {}), 0);
  EXPECT_EQ(code_on_a_full_disk(0, [] { std::printf("printed"); }), storage);
  EXPECT_EQ(code_on_a_full_disk(0, [] { std::cout << "streamed"; }), storage);
  // The write that failed is an earlier one, and nothing is left to write.
  EXPECT_EQ(code_on_a_full_disk(0, [] { std::printf("printed"), std::fflush(stdout); }), storage);
  EXPECT_EQ(code_on_a_full_disk(7, [] { std::printf("printed"); }), 7);
}

}  // namespace
}  // namespace strata
