// SPDX-License-Identifier: MIT
// A thread per rank that ends the run if a collective or a step does not finish. It names the rank that hangs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace strata::sharding {

class Watchdog {
 public:
  static constexpr const char* kStart = "the start of MPI";  // until MPI has started, ranks cannot ask each other
  static constexpr size_t kLongestText = 400;  // bytes of each text of a wait; an answer to another rank is short

  // Describes what a rank waits for, with the same text on all ranks. Two ranks that wait at the same place for
  // different things never finish. An empty place makes no such statement.
  struct Wait {
    std::string place;  // "all ranks, collective 17"
    std::string what;   // "all_gather of blocks.2 (197376 bfloat16)"
    // True if all ranks of a group exchange a small text: the wait ends as soon as all of them have arrived.
    bool handshake = false;
    bool operator==(const Wait&) const = default;
    std::string text() const { return place.empty() ? what : place + ", " + what; }
  };
  // The answer of another rank.
  struct PeerState {
    int rank;
    bool answered;
    Wait wait;            // empty if it waits for no rank
    std::string where;    // its step and phase
    int64_t begun = 0;    // number of waits that the rank has begun: distinguishes a wait from a later equal one
    bool queued = false;  // its GPU has not begun the wait: it still does what was queued before
  };
  // Functions that ask all other ranks (for at most `seconds`) and that end all ranks. Both must work while collectives
  // hang.
  struct Peers {
    std::function<std::vector<PeerState>(double seconds)> ask;
    std::function<void(int exit_code)> abort;
  };

  explicit Watchdog(double timeout_seconds);
  ~Watchdog();
  // Returns when no call of the former `ask` is running any more. Then the objects that this function uses may be
  // destroyed.
  void connect(Peers peers);

  // At most the timeout may pass between begin and end. Of a text of more than kLongestText bytes, the start and a hash
  // of the whole text are kept, so that different texts stay different.
  int64_t begin(Wait wait);
  void end(int64_t id);
  // Says whether the GPU of this rank has not begun the wait yet, because it still does what was queued before.
  void set_queued(int64_t id, bool queued);
  // Starts the timeout of these waits again, because the GPU could not begin them before.
  void restart(const std::vector<int64_t>& ids);

  // A heartbeat of the training loop. After the first one, at most the timeout may pass until the next one or until
  // pause_watchdog(). set_position() with a step above 0 counts as the first one, so that the first step is watched.
  void heartbeat();
  void pause_watchdog();

  // Ends the run at once because of an error from which it cannot recover.
  [[noreturn]] void fail(const std::string& message, const std::string& hint);
  // Call it when a failure has been reported. Ends the run with this exit code after at most 5 s, because destructors
  // may wait for a GPU or a disk that hangs. The watchdog reports nothing any more.
  void end_soon(int exit_code);

  // The answer of this rank to another one; its rank and position are not filled in.
  PeerState state() const;
  Wait waits_for() const { return state().wait; }

 private:
  struct Watched {
    Wait wait;
    double seconds = 0;
    double next_check_seconds = 0.5;  // seconds until the other ranks are asked while it may still finish; doubles
    bool queued = false;
  };
  void watch();
  bool is_late(const Watched& watched) const { return watched.seconds > timeout_; }
  // These two functions are called with the lock and return with it. They release it while they ask other ranks.
  void end_late_run(int64_t id, std::unique_lock<std::mutex>& lock);
  void look_at_first(std::unique_lock<std::mutex>& lock);
  void find_mismatch(const Wait& wait, double seconds);
  void find_cycle(std::vector<PeerState> states, double seconds);
  std::vector<PeerState> ask(double seconds);
  [[noreturn]] void end_run(const std::string& message, const std::string& hint, const std::vector<PeerState>& states);
  void end_after(double seconds, int exit_code);
  std::function<void(int)> abort() const;  // ends all ranks; may be empty

  const double timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, answered_;
  Peers peers_;
  bool asks_ = false;  // a call of peers_.ask is running
  std::map<int64_t, Watched> watched_;
  int64_t next_id_ = 0;
  std::vector<int64_t> stalled_;  // `begun` of all ranks if all were in handshakes; used by thread_
  double stalled_at_ = 0;         // seconds of this rank's handshake when stalled_ was first seen
  bool before_first_step_ = true;
  double since_heartbeat_ = -1;  // seconds; negative while paused
  bool stop_ = false;
  std::atomic<bool> ends_{false};  // there is a failure, and a thread ends the process
  std::thread thread_;
};

}  // namespace strata::sharding
