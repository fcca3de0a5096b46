// SPDX-License-Identifier: MIT
#include "sharding/process/stop_request.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/errors.h"

namespace strata::sharding {
namespace {

std::atomic<bool> requested{false};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request(int signal) {
  if (signal == SIGINT && interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::interrupted));
  requested = true;
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;  // otherwise a signal could make a write of a checkpoint fail
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaction(signal, &action, nullptr);
}

bool stop_requested_here() { return requested; }

}  // namespace strata::sharding
