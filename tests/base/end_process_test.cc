// SPDX-License-Identifier: MIT
#include "base/end_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <string>

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

}  // namespace
}  // namespace strata
