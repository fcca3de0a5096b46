// SPDX-License-Identifier: MIT
#include "sharding/process/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace strata::sharding {
namespace {

TEST(StopRequestTest, EachSignalAsksForAStop) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    EXPECT_EXIT(
        {
          install_stop_handlers();
          const bool before = stop_requested_here();
          raise(signal);
          _exit(!before && stop_requested_here() ? 42 : 1);
        },
        testing::ExitedWithCode(42), "");
  }
}

TEST(StopRequestTest, ATensorThatWasMadeBeforeSeesTheRequest) {
  EXPECT_EXIT(
      {
        const at::Tensor word = stop_request_on(at::kCPU);
        install_stop_handlers();
        const float before = word.item<float>();
        raise(SIGTERM);
        _exit(before == 0 && word.item<float>() == 1 ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(StopRequestTest, TheSecondInterruptEndsAtOnce) {
  EXPECT_EXIT(
      {
        install_stop_handlers();
        raise(SIGTERM);  // a second signal of another kind has no effect
        raise(SIGINT);
        raise(SIGTERM);
        raise(SIGINT);
        _exit(1);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace strata::sharding
