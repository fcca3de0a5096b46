// SPDX-License-Identifier: MIT
#include "sharding/process/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text/formatted.h"
#include "base/text/ranks_text.h"
#include "sharding/process/end_ranks.h"
#include "sharding/process/failure.h"

namespace strata::sharding {
namespace {

constexpr double kTick = 0.1;                // seconds between two checks
constexpr double kLongestTick = 0.5;         // most seconds per check: a run that was suspended as a whole did not hang
constexpr double kAnswerSeconds = 0.5;       // seconds for the answers of other ranks, after the timeout
constexpr double kEarlyAnswerSeconds = 0.3;  // the same while the collective may still finish
constexpr double kGraceSeconds = 5;          // most seconds for reports and destructors after a failure
constexpr double kStallSeconds = 10;         // seconds until a cycle of handshakes is an error; TCP may stall for less

std::string seconds_text(double seconds) { return formatted("%.1f s", seconds); }

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::string shortened(std::string text) {
  if (text.size() <= Watchdog::kLongestText) return text;
  const std::string end =
      "... (" + std::to_string(text.size()) + " bytes, hash " + std::to_string(std::hash<std::string>()(text)) + ")";
  return text.substr(0, Watchdog::kLongestText - end.size()) + end;
}

// Names the ranks that block this wait, of the first of these kinds that exists:
//   1. ranks that do not answer
//   2. ranks that are in no collective
//   3. ranks whose GPU has not begun this collective, with this rank if `queued`
//   4. ranks that wait in another collective
std::string diagnosis(const Watchdog::Wait& wait, bool queued, const std::vector<Watchdog::PeerState>& peers) {
  std::vector<int> silent, absent, behind;
  if (queued) behind.push_back(failure_here(ExitCode::communication, "").rank);
  std::string elsewhere;
  for (const auto& peer : peers) {
    if (!peer.answered)
      silent.push_back(peer.rank);
    else if (peer.wait == Watchdog::Wait())
      absent.push_back(peer.rank);
    else if (peer.queued)
      behind.push_back(peer.rank);
    else if (peer.wait != wait)
      elsewhere +=
          (elsewhere.empty() ? "rank " : "; rank ") + std::to_string(peer.rank) + " waits in " + peer.wait.text();
  }
  if (wait.place == Watchdog::kStart) return "a rank did not start, has ended, or cannot be reached";
  if (!silent.empty()) return ranks_text(silent) + " did not answer (stopped, dead or unreachable)";
  if (!absent.empty()) return ranks_text(absent) + " did not arrive (busy or hung)";
  if (!behind.empty()) {
    std::sort(behind.begin(), behind.end());
    return (behind.size() == 1 ? "on the GPU of " : "on the GPUs of ") + ranks_text(behind) +
           " work that was queued before does not end";
  }
  if (!elsewhere.empty()) return elsewhere;
  if (peers.empty()) return "no other rank could be asked: what this rank has begun hangs";
  return wait.place.empty() ? "all ranks have begun it: a kernel or the transport hangs"
                            : "all ranks have arrived: the transport hangs";
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
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [this] { return !asks_; });
  peers_ = std::move(peers);
}

int64_t Watchdog::begin(Wait wait) {
  wait.place = shortened(std::move(wait.place));
  wait.what = shortened(std::move(wait.what));
  const std::lock_guard lock(mutex_);
  watched_.emplace(next_id_, Watched{std::move(wait)});
  return next_id_++;
}

void Watchdog::end(int64_t id) {
  const std::lock_guard lock(mutex_);
  watched_.erase(id);
}

void Watchdog::set_queued(int64_t id, bool queued) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  if (found != watched_.end()) found->second.queued = queued;
}

void Watchdog::restart(const std::vector<int64_t>& ids) {
  const std::lock_guard lock(mutex_);
  for (const int64_t id : ids) {
    const auto found = watched_.find(id);
    if (found == watched_.end()) continue;
    found->second = Watched{.wait = std::move(found->second.wait), .queued = found->second.queued};
  }
}

void Watchdog::heartbeat() {
  const std::lock_guard lock(mutex_);
  before_first_step_ = false;
  since_heartbeat_ = 0;
}

void Watchdog::pause_watchdog() {
  const std::lock_guard lock(mutex_);
  before_first_step_ = false;
  since_heartbeat_ = -1;
}

void Watchdog::fail(const std::string& message, const std::string& hint) { end_run(message, hint, {}); }

Watchdog::PeerState Watchdog::state() const {
  const std::lock_guard lock(mutex_);
  const Watched first = watched_.empty() ? Watched() : watched_.begin()->second;
  return {.rank = -1, .answered = true, .wait = first.wait, .where = {}, .begun = next_id_, .queued = first.queued};
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
    for (auto& [id, watched] : watched_) watched.seconds += passed;
    if (since_heartbeat_ >= 0) since_heartbeat_ += passed;
    const auto late =
        std::find_if(watched_.begin(), watched_.end(), [this](const auto& one) { return is_late(one.second); });
    if (late != watched_.end()) {
      end_late_run(late->first, lock);
    } else if (!watched_.empty()) {
      look_at_first(lock);
    }
    if (before_first_step_ && failure_here(ExitCode::done, "").step > 0) {
      before_first_step_ = false;
      since_heartbeat_ = 0;
    }
    if (since_heartbeat_ > timeout_ && watched_.empty()) {
      const double seconds = since_heartbeat_;
      lock.unlock();
      end_run("the training loop of this rank gave no sign of life for " + seconds_text(seconds),
              "see what this rank did last; raise run.timeout if it was only slow", {});
    }
  }
}

// Ends the run, unless the wait ends or starts again while other ranks answer.
void Watchdog::end_late_run(int64_t id, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto states = ask(kAnswerSeconds);
  lock.lock();
  const auto found = watched_.find(id);
  if (found == watched_.end() || !is_late(found->second)) {
    // The training loop could do nothing during the wait, so its time starts again.
    if (since_heartbeat_ > 0) since_heartbeat_ = 0;
    return;
  }
  const Watched late = found->second;
  lock.unlock();
  end_run(late.wait.text() + " did not end within " + seconds_text(late.seconds) + ": " +
              diagnosis(late.wait, late.queued, states),
          late.wait.place == kStart
              ? "see that all ranks were started and still run, and that every machine reaches the others: networks "
                "are named by STRATA_MPIRUN_FLAGS (btl_tcp_if_include, oob_tcp_if_include), and no firewall may "
                "close their ports"
              : "see what the named rank did last; raise run.timeout if it was only slow",
          states);
}

// Asks about the first wait only, because other ranks see only the first wait of this rank. The waits may change in the
// meantime.
void Watchdog::look_at_first(std::unique_lock<std::mutex>& lock) {
  Watched& first = watched_.begin()->second;
  if (first.seconds <= first.next_check_seconds || first.seconds + 2 * kEarlyAnswerSeconds >= timeout_) return;
  first.next_check_seconds *= 2;
  const Watched copy = first;
  lock.unlock();
  find_mismatch(copy.wait, copy.seconds);
  lock.lock();
}

void Watchdog::find_mismatch(const Wait& wait, double seconds) {
  if (wait.place.empty() && !wait.handshake) return;
  const auto states = ask(kEarlyAnswerSeconds);
  if (waits_for() != wait) return;
  if (wait.handshake) find_cycle(states, seconds);
  if (wait.place.empty()) return;
  for (const auto& peer : states) {
    if (peer.wait.place != wait.place || peer.wait.what == wait.what) continue;
    end_run("ranks do not do the same at " + wait.place + ": rank " + std::to_string(peer.rank) + " starts " +
                peer.wait.what + ", rank " + std::to_string(failure_here(ExitCode::communication, "").rank) +
                " starts " + wait.what,
            "all ranks must start the same collectives in the same order", states);
  }
}

// Handshakes of different groups can wait for each other in a cycle. If every rank is in a handshake, and none has left
// its handshake for kStallSeconds or a third of the timeout, no handshake will end. No message is merely late: a rank
// that answers also polls its messages. `seconds` is how long this rank's handshake has lasted.
void Watchdog::find_cycle(std::vector<PeerState> states, double seconds) {
  PeerState own = state();
  own.rank = failure_here(ExitCode::communication, "").rank;
  states.push_back(own);
  std::sort(states.begin(), states.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::vector<int64_t> begun;
  std::string sides;
  for (const auto& peer : states) {
    if (peer.answered && peer.wait.handshake) begun.push_back(peer.begun);
    sides += (sides.empty() ? "rank " : "; rank ") + std::to_string(peer.rank) + " is in " + peer.wait.text();
  }
  const bool is_one_handshake =
      std::all_of(states.begin(), states.end(), [&](const auto& one) { return one.wait == own.wait; });
  const bool stalled = begun.size() == states.size() && !is_one_handshake;
  if (stalled && begun == stalled_ && seconds - stalled_at_ >= std::min(kStallSeconds, timeout_ / 3)) {
    end_run("ranks of different groups wait for each other: " + sides,
            "all ranks must start the collectives of their groups in the same order", states);
  }
  if (!stalled || begun != stalled_) stalled_at_ = seconds;
  stalled_ = stalled ? begun : std::vector<int64_t>();
}

std::vector<Watchdog::PeerState> Watchdog::ask(double seconds) {
  std::unique_lock lock(mutex_);
  if (!peers_.ask) return {};
  asks_ = true;  // until it is reset, connect() leaves peers_ as it is
  lock.unlock();
  std::vector<PeerState> states = peers_.ask(seconds);
  lock.lock();
  asks_ = false;
  answered_.notify_all();
  return states;
}

void Watchdog::end_run(const std::string& message, const std::string& hint, const std::vector<PeerState>& states) {
  const Failure failure = failure_here(ExitCode::communication, message, hint);
  end_after(kGraceSeconds, static_cast<int>(failure.code));  // the disk or the terminal may hang
  report_failure(failure);
  std::string lines = "rank " + std::to_string(failure.rank) + ", step " + std::to_string(failure.step) + ", " +
                      failure.phase + ": " + message + "\n";
  for (const auto& state : states) {
    lines += "  rank " + std::to_string(state.rank) + ": ";
    if (!state.answered)
      lines += "no answer\n";
    else
      lines += (state.wait == Wait() ? "waits for nobody, " : "waits for " + state.wait.text() + ", ") + state.where +
               (state.queued ? ", its GPU has not begun that\n" : "\n");
  }
  if (write(STDERR_FILENO, lines.data(), lines.size()) < 0) _exit(static_cast<int>(failure.code));
  end_all_ranks(abort(), static_cast<int>(failure.code));
}

std::function<void(int)> Watchdog::abort() const {
  const std::lock_guard lock(mutex_);
  return peers_.abort;
}

// Ends the run with this exit code before other ranks report this one as hung, with another exit code.
void Watchdog::end_soon(int exit_code) { end_after(std::min(kGraceSeconds, timeout_ / 2), exit_code); }

// The thread is detached, because this object may be destroyed before it has slept. If the process ends already, for
// the first cause, a second one has nothing to add.
void Watchdog::end_after(double seconds, int exit_code) {
  while (ends_.exchange(true)) sleep_for(1);
  std::thread([seconds, exit_code, abort = abort()] {
    sleep_for(seconds);
    end_all_ranks(abort, exit_code);
  }).detach();
}

}  // namespace strata::sharding
