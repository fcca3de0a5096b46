// SPDX-License-Identifier: MIT
// Saves checkpoints in the background: a step waits only for a copy of its shards in host memory, never for the disk.
// On GPUs it waits only until the copy is queued.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/ranks.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/snapshot.h"

namespace strata::trainer {

struct RankReport;

struct SaveOutcome {
  int64_t step = 0;
  bool committed = false;
  std::string message;  // a sentence: why the save failed, or what could not be removed after a commit; may be empty
  std::string weights_sha256 = {};  // hash of the master weights that were committed; only on rank 0
};

// Returns the state of the run as a text, given the hash of the weights with which it is saved.
using StateText = std::function<std::string(const std::string& weights_sha256)>;

// One save runs at a time, in three stages. start_save copies the pieces and starts a thread that writes them. At later
// step boundaries, which are the same on all ranks, try_finish asks all ranks whether they are done. When every rank
// has written and synced its file, rank 0 commits the checkpoint in a thread. When the commit has finished, try_finish
// returns the outcome. The calling thread sends all messages.
class CheckpointWriter {
 public:
  struct Options {
    std::string folder;                  // <run>/checkpoints; created if it does not exist
    int64_t keep = 2;                    // number of newest checkpoints that are kept, at least 2
    int64_t keep_every = 0;              // multiples of this step are milestones, which stay; 0: there are none
    int64_t resumed_step = -1;           // step that is on the disk already
    std::vector<int64_t> rejected = {};  // steps found damaged while resuming: renamed after the next commit
  };

  // This is a collective. Removes temporary files that a crash has left. The caller must hold the run's lock.
  CheckpointWriter(Options options, Ranks ranks);
  ~CheckpointWriter();  // waits for the thread; a save that is not committed stays unfinished

  // Allocates the memory for copies of these pieces, which the first save would otherwise do.
  void reserve(const std::vector<TensorPiece>& pieces) { snapshot_.reserve(pieces); }

  // This does not communicate. Pieces on CPUs may be modified after it returns. Pieces on a GPU may be modified after
  // the work that is queued on copies() by then. Only rank 0's `state` is called, in another thread. The pieces of all
  // ranks must cover each tensor once. Does nothing if `step` is the last one saved. The previous save must have
  // finished.
  void start_save(int64_t step, const std::vector<TensorPiece>& pieces, StateText state);

  // The stream on which pieces are copied from a GPU; nothing if there were none.
  const std::optional<c10::cuda::CUDAStream>& copies() const { return snapshot_.copies(); }

  bool in_flight() const { return phase_ != Phase::idle; }  // the same value on all ranks
  bool has_checkpoint() const { return last_step_ >= 0; }   // of this run, committed or resumed; as above

  // This is a collective. Returns the outcome if the save has ended, otherwise nothing. While a rank still works, a
  // call exchanges one byte of each rank. A failed save leaves older checkpoints unchanged; the third failure in a row
  // throws Error(storage) on all ranks.
  std::optional<SaveOutcome> try_finish();
  // This is a collective. Waits for the save as long as the disk needs, and calls `heartbeat` about every 100 ms.
  // Returns nothing if no save is in progress.
  std::optional<SaveOutcome> finish(const std::function<void()>& heartbeat = [] {});

 private:
  enum class Phase { idle, writing, committing };

  void start_task(std::function<std::string()> work);
  void start_commit(const std::vector<std::string>& reports);
  std::string write_rank_file();
  // Returns the problems of tidy_up(), which leave the checkpoint as it is.
  std::string commit(const std::vector<std::string>& results);
  void write_manifest(const std::vector<RankReport>& reports);
  void rename_to_committed();
  std::string tidy_up();
  bool is_rejected(int64_t step) const;
  void set_aside(int64_t step);
  void set_rejected_aside();
  void purge();
  void point_to_newest();
  std::string path(const std::string& name) const { return options_.folder + "/" + name; }
  std::string unfinished() const;

  Options options_;  // without the rejected steps that are renamed already
  Ranks ranks_;
  std::string run_;    // id of this process group; distinguishes its temporary names from the names of others
  int64_t last_step_;  // last committed or resumed step; -1 if there is none
  int failures_in_a_row_ = 0;

  Phase phase_ = Phase::idle;
  int64_t step_ = -1;
  StateText state_;
  Snapshot snapshot_;
  std::future<std::string> task_;  // the work of this rank in this phase
  std::string weights_sha256_;     // set by commit
  std::string result_;             // a mark of how task_ ended, and its text; empty while the task runs
};

}  // namespace strata::trainer
