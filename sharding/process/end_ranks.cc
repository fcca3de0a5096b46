// SPDX-License-Identifier: MIT
#include "sharding/process/end_ranks.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace strata::sharding {

void end_all_ranks(const std::function<void(int)>& abort, int exit_code) {
  constexpr std::chrono::seconds kAbortTime{2};
  if (abort) {
    std::thread([abort, exit_code] { abort(exit_code); }).detach();
    std::this_thread::sleep_for(kAbortTime);
  }
  _exit(exit_code);
}

}  // namespace strata::sharding
