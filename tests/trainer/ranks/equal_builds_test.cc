// SPDX-License-Identifier: MIT
// A rank with another build than the others, as on a host with an older checkout or another wheel, ends the run with 2.
#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"
#include "sharding/rank_session.h"
#include "tests/sharding/mpi_main.h"
#include "trainer/start_rank.h"

namespace strata::trainer {
namespace {

using tests::session;

const Build kBuild = {.libtorch = "2.11.0", .kernels = "0f1e2d3c4b5a6978", .transport = "NCCL 2.28.9, one stream"};

// Returns the error of a start in which the last rank has another build.
std::string refusal_of(const Build& other) {
  const bool is_last = session().rank() == session().ranks() - 1;
  std::string message;
  const int code = exit_code_of([&] {
    try {
      require_equal_builds(session(), is_last ? other : kBuild);
    } catch (const Error& error) {
      message = error.what();
      throw;
    }
    return ExitCode::done;
  });
  EXPECT_EQ(code, 2);
  return message;
}

std::string both(int line, const std::string& first, const std::string& last) {
  return "ranks differ in their builds, line " + std::to_string(line) + ": rank 0 has `" + first + "`, rank " +
         std::to_string(session().ranks() - 1) + " has `" + last + "`";
}

TEST(EqualBuildsTest, EqualOnesAreAccepted) { require_equal_builds(session(), kBuild); }

TEST(EqualBuildsTest, AnotherLibTorchIsRefused) {
  Build other = kBuild;
  other.libtorch = "2.10.0";
  EXPECT_EQ(refusal_of(other), both(1, "LibTorch 2.11.0", "LibTorch 2.10.0"));
}

TEST(EqualBuildsTest, OtherKernelsAreRefused) {
  Build other = kBuild;
  other.kernels = "0f1e2d3c4b5a6979";
  EXPECT_EQ(refusal_of(other), both(2, "kernels 0f1e2d3c4b5a6978", "kernels 0f1e2d3c4b5a6979"));
}

TEST(EqualBuildsTest, AnotherNcclIsRefused) {
  Build other = kBuild;
  other.transport = "NCCL 2.27.3, one stream";
  EXPECT_EQ(refusal_of(other), both(3, "NCCL 2.28.9, one stream", "NCCL 2.27.3, one stream"));
}

}  // namespace
}  // namespace strata::trainer
