// SPDX-License-Identifier: MIT
// What a run's folder holds before a run starts in it.
#pragma once

#include <cstdint>
#include <string>

namespace strata::trainer {

struct FolderContents {
  bool holds_run = false;       // resolved.yaml, metrics.jsonl or checkpoints exist
  int64_t last_step = 0;        // the last step in metrics.jsonl
  int64_t last_save = 0;        // the last step whose save began: metrics.jsonl has its weights_sha256
  bool has_checkpoint = false;  // a save was finished
  bool has_unfinished = false;  // a save was cut off
};

// Throws Error(storage) if the folder cannot be read.
FolderContents contents_of(const std::string& folder);

}  // namespace strata::trainer
