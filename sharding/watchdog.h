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
  // What another rank answered when it was asked; `answered` is false when nothing came.
  struct PeerState {
    int rank;
    bool answered = false;
    std::string doing;  // what it waits for, empty when it waits for nobody
    std::string where;  // its step and phase
  };
  // How to ask all other ranks (at most `seconds`), and how to end them; both must work while collectives hang.
  struct Peers {
    std::function<std::vector<PeerState>(double seconds)> ask;
    std::function<void(int exit_code)> abort;
  };

  explicit Watchdog(double timeout_seconds);
  ~Watchdog();
  void connect(Peers peers);

  // Between begin and end, at most the timeout may pass. `what` identifies the collective, by the same text on all
  // ranks.
  int64_t begin(std::string what);
  void end(int64_t id);

  // A sign of life of the training loop. After the first, at most the timeout may pass until the next or until rest().
  void progress();
  void rest();

  // What this rank says when another one asks: what it waits for, empty when it waits for nobody.
  std::string doing() const;

 private:
  struct Watched {
    std::string what;
    double seconds = 0;
  };
  void watch();
  [[noreturn]] void end_run(const std::string& what, double seconds, bool in_collective);

  const double timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Peers peers_;
  std::map<int64_t, Watched> watched_;
  int64_t next_id_ = 0;
  double since_progress_ = -1;  // negative: not counting
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace strata::sharding
