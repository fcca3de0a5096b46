// SPDX-License-Identifier: MIT
// A thread per rank that ends the run when a collective or a step does not end: it names the rank that hangs, and
// exits.
#pragma once

#include <condition_variable>
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
  static constexpr const char* kStart = "the start of MPI";  // the place where ranks cannot ask each other yet

  // What a rank waits for: the same text on all ranks. Two ranks that wait at the same place for different things will
  // wait for ever; an empty place says nothing of that kind.
  struct Wait {
    std::string place;  // "all ranks, collective 17"
    std::string what;   // "all_gather of blocks.2 (197376 bfloat16)"
    // All ranks of a group tell each other a small text: it ends as soon as all of them have come.
    bool meeting = false;
    bool operator==(const Wait&) const = default;
    std::string text() const { return place.empty() ? what : place + ", " + what; }
  };
  // What another rank answered when it was asked.
  struct PeerState {
    int rank;
    bool answered;
    Wait wait;          // empty when it waits for nobody
    std::string where;  // its step and phase
    int64_t begun = 0;  // waits that this rank has begun: the same wait, or a later one like it
  };
  // How to ask all other ranks (at most `seconds`), and how to end them; both must work while collectives hang.
  struct Peers {
    std::function<std::vector<PeerState>(double seconds)> ask;
    std::function<void(int exit_code)> abort;
  };

  explicit Watchdog(double timeout_seconds);
  ~Watchdog();
  void connect(Peers peers);

  // Between begin and end, at most the timeout may pass.
  int64_t begin(Wait wait);
  void end(int64_t id);

  // A sign of life of the training loop. After the first, at most the timeout may pass until the next or until rest().
  void progress();
  void rest();

  // Ends the run now: something was seen from which it will not recover.
  [[noreturn]] void fail(const std::string& message, const std::string& hint);

  // What this rank says when another one asks; its rank and place are not filled in.
  PeerState state() const;
  Wait waits_for() const { return state().wait; }

 private:
  struct Watched {
    Wait wait;
    double seconds = 0;
    double next_look = 0.5;  // at what the others do, though it may still end well; then after twice the time
  };
  void watch();
  void look_for_mismatch(const Wait& wait);
  void look_for_cycle(std::vector<PeerState> states);
  std::vector<PeerState> ask(double seconds);
  [[noreturn]] void end_run(const std::string& message, const std::string& hint, const std::vector<PeerState>& states);

  const double timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Peers peers_;
  std::map<int64_t, Watched> watched_;
  int64_t next_id_ = 0;
  std::vector<int64_t> stalled_;  // `begun` of all ranks, when all of them were in meetings; of the watching thread
  double since_progress_ = -1;    // negative: not counting
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace strata::sharding
