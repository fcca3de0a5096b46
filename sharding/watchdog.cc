// SPDX-License-Identifier: MIT
#include "sharding/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sharding/failure.h"

namespace strata::sharding {
namespace {

constexpr double kTick = 0.1;           // seconds between two looks
constexpr double kLongestTick = 0.5;    // what one look may add: a run that was suspended as a whole has not hung
constexpr double kAnswerSeconds = 0.5;  // for the others to say what they do
constexpr double kAbortSeconds = 2;     // for MPI_Abort, which may hang as well

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", seconds);
  return text;
}

std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

// Who holds `what` up. A rank that does not answer is the cause; else one that waits for nobody and has not come; else
// one that waits for something else.
std::string diagnosis(const std::string& what, const std::vector<Watchdog::PeerState>& peers) {
  std::vector<int> silent, absent, elsewhere;
  for (const auto& peer : peers) {
    if (!peer.answered)
      silent.push_back(peer.rank);
    else if (peer.doing.empty())
      absent.push_back(peer.rank);
    else if (peer.doing != what)
      elsewhere.push_back(peer.rank);
  }
  if (!silent.empty()) return named(silent) + " did not answer (stopped, dead or unreachable)";
  if (!absent.empty()) return named(absent) + " did not arrive (busy or hung)";
  if (!elsewhere.empty()) return named(elsewhere) + " waited for something else";
  return peers.empty() ? "the other ranks could not be asked" : "all ranks have arrived: the transport hangs";
}

}  // namespace

Watchdog::Watchdog(double timeout_seconds) : timeout_(timeout_seconds), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::connect(Peers peers) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
}

int64_t Watchdog::begin(std::string what) {
  const std::lock_guard lock(mutex_);
  watched_.emplace(next_id_, Watched{std::move(what)});
  return next_id_++;
}

void Watchdog::end(int64_t id) {
  const std::lock_guard lock(mutex_);
  watched_.erase(id);
}

void Watchdog::progress() {
  const std::lock_guard lock(mutex_);
  since_progress_ = 0;
}

void Watchdog::rest() {
  const std::lock_guard lock(mutex_);
  since_progress_ = -1;
}

std::string Watchdog::doing() const {
  const std::lock_guard lock(mutex_);
  return watched_.empty() ? "" : watched_.begin()->second.what;
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(kTick, timeout_ / 4)));
    const auto now = Clock::now();
    const double passed = std::min(std::chrono::duration<double>(now - last).count(), kLongestTick);
    last = now;
    for (auto& [id, watched] : watched_) {
      watched.seconds += passed;
      if (watched.seconds > timeout_) {
        const Watched late = watched;
        lock.unlock();
        end_run(late.what, late.seconds, /*in_collective=*/true);
      }
    }
    if (since_progress_ >= 0) since_progress_ += passed;
    if (since_progress_ > timeout_ && watched_.empty()) {
      const double seconds = since_progress_;
      lock.unlock();
      end_run("the training loop of this rank", seconds, /*in_collective=*/false);
    }
  }
}

void Watchdog::end_run(const std::string& what, double seconds, bool in_collective) {
  Peers peers;
  {
    const std::lock_guard lock(mutex_);
    peers = peers_;
  }
  const auto states = in_collective && peers.ask ? peers.ask(kAnswerSeconds) : std::vector<PeerState>();
  std::string message = what + " did not end within " + seconds_text(seconds);
  if (in_collective) message += ": " + diagnosis(what, states);
  Failure failure = failure_here(ExitCode::communication, message,
                                 "see what the named rank did last; raise run.timeout if it was only slow");
  report_failure(failure);

  std::string lines = "rank " + std::to_string(failure.rank) + ", step " + std::to_string(failure.step) + ", " +
                      failure.phase + ": " + message + "\n";
  for (const auto& state : states) {
    lines += "  rank " + std::to_string(state.rank) + ": ";
    lines += !state.answered
                 ? "no answer"
                 : (state.doing.empty() ? "waits for nobody" : "waits for " + state.doing) + ", " + state.where;
    lines += "\n";
  }
  if (write(STDERR_FILENO, lines.data(), lines.size()) < 0) _exit(static_cast<int>(failure.code));
  if (peers.abort) {
    std::thread([abort = peers.abort, code = failure.code] { abort(static_cast<int>(code)); }).detach();
    std::this_thread::sleep_for(std::chrono::duration<double>(kAbortSeconds));
  }
  _exit(static_cast<int>(failure.code));
}

}  // namespace strata::sharding
