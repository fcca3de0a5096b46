// SPDX-License-Identifier: MIT
// Saves checkpoints in the background: a step pays for a copy of its shards in memory, never for the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

namespace strata::trainer {

struct SaveOutcome {
  int64_t step = 0;
  bool committed = false;
  std::string
      message;  // a sentence: why not; or, of a committed one, what could not be tidied up; empty: nothing to say
};

// One save at a time, in three moves. start_save copies the pieces and begins to write them in a thread. At later step
// borders, the same on all ranks, try_finish exchanges host messages: when every rank has written and synced its file,
// rank 0 commits in a thread; when that is done, the outcome is returned. All messages are sent by the calling thread.
class CheckpointWriter {
 public:
  struct Options {
    std::string folder;                  // <run>/checkpoints; made when it does not exist
    int64_t keep = 2;                    // newest checkpoints that stay, at least 2
    int64_t resumed_step = -1;           // is on the disk already
    std::vector<int64_t> rejected = {};  // found damaged while resuming: removed after the next commit
  };

  // Collective. Removes what a crash has left; the run's lock must be held.
  CheckpointWriter(Options options, Ranks ranks);
  ~CheckpointWriter();  // waits for the thread; what was not committed is left unfinished

  // No communication. Pieces may be changed when it returns; `state` counts on rank 0. The pieces of all ranks must
  // cover each tensor once. Does nothing when `step` is the last one saved. The save before must have been finished.
  void start_save(int64_t step, const std::vector<TensorPiece>& pieces, std::string state);

  bool in_flight() const { return phase_ != Phase::idle; }  // the same on all ranks

  // Collective. The outcome once there is one, else nothing. A failed save leaves the older checkpoints as they were;
  // the third failure in a row throws Error(storage) on all ranks.
  std::optional<SaveOutcome> try_finish();
  // Collective. Waits for it, however long the disk takes, and calls `sign_of_life` meanwhile; nothing when no save is
  // in flight.
  std::optional<SaveOutcome> finish(const std::function<void()>& sign_of_life = [] {});

 private:
  enum class Phase { idle, writing, committing };

  void start_commit(const std::vector<std::string>& reports);
  std::string write_rank_file();
  std::string commit(const std::vector<std::string>& reports);
  void purge();
  std::string path(const std::string& name) const { return options_.folder + "/" + name; }
  std::string unfinished() const;

  Options options_;
  Ranks ranks_;
  std::string run_;    // id of this process group: keeps its temporary names apart from those of others
  int64_t last_step_;  // last committed or resumed; -1: none
  int failures_in_a_row_ = 0;

  Phase phase_ = Phase::idle;
  int64_t step_ = -1;
  std::string state_;
  std::vector<TensorPiece> snapshot_;  // copies on the host, reused from save to save
  std::future<std::string> task_;      // of this rank, in this phase
  std::string result_;                 // of task_, as it is gathered: empty while it runs
};

}  // namespace strata::trainer
