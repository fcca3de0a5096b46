// SPDX-License-Identifier: MIT
// The ledger of a rank: what it computed in each step, in fixed records of 40 bytes, so that a replay of the step can
// be compared bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/record_file.h"

namespace strata::trainer {

struct LedgerStep {
  int64_t step = 0;
  uint64_t data = 0;          // data_hash of the micro-batches of this rank
  float loss = 0;             // mean over the items of all ranks
  float gradient_norm = 0;    // global, before clipping
  float loss_of_rank = 0;     // the part of this rank in the loss
  float squares_of_rank = 0;  // the part of this rank in the square of the gradient norm
  // See StepResult::overflowed: loss scaling took the gradients for an overflow and skipped the update.
  bool overflowed = false;
};

// Facts that the bits of a step depend on besides the configuration: "device" to "NVIDIA H200", "ranks" to "2". See
// run_facts.
using Facts = std::map<std::string, std::string>;
// The facts that a comparison reads. data: the fingerprint of all data. repeats: "yes" if equal facts give equal bits.
// samples: "shared" if each rank computes a part of every sample, otherwise "split", or "split, each over 2 ranks" if
// ranks share sequences.
inline constexpr char kFactData[] = "data", kFactRanks[] = "ranks", kFactMicroBatch[] = "micro_batch",
                      kFactRepeats[] = "repeats", kFactSamples[] = "samples";

// A start of the run: its facts hold for the steps after `after`.
struct LedgerStart {
  int64_t after = 0;
  Facts facts = {};
};

struct Ledger {
  std::vector<LedgerStart> starts = {};
  std::map<int64_t, LedgerStep> steps = {};
  // Weights of checkpoints: the first 48 digits of weights_sha256, by step.
  std::map<int64_t, std::string> weights = {};

  // Returns the facts of the start that took this step; null if there is none.
  const Facts* facts_of(int64_t step) const;
};

// Returns the path of a rank's ledger in the folder of a run.
std::string ledger_path(const std::string& folder, int rank);

// Ignores records whose checksum is wrong, such as one that a crash has torn.
Ledger parse_ledger(std::string_view bytes);
// Reads the ledgers of all ranks that the run ever had. Throws Error (storage) if rank 0 has none.
std::vector<Ledger> read_ledgers(const std::string& folder);

// Return records as they are stored.
std::string records_of(const LedgerStart& start);
std::string record_of(const LedgerStep& step);
std::string record_of_weights(int64_t step, std::string_view weights_sha256);

// Appends the records of a run, also after it was resumed. A failure to write is a warning.
class LedgerWriter {
 public:
  struct Options {
    std::string folder;  // the run's folder
    int rank = 0;
    int64_t resumed_step = -1;  // -1 for a new run; records of later steps are cut off
    Facts facts = {};
  };
  LedgerWriter(const Options& options, RecordFile::Warn warn);

  void step(const LedgerStep& step) { file_->append(record_of(step)); }
  void weights(int64_t step, std::string_view weights_sha256) {
    file_->append(record_of_weights(step, weights_sha256));
  }

 private:
  std::optional<RecordFile> file_;
};

}  // namespace strata::trainer
