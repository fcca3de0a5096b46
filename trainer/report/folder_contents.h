// SPDX-License-Identifier: MIT
// Lists what a run's folder holds before a run starts in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

// The files that runs write into their folder, except for event files, which begin with kEventFiles, and reports of
// failures before a restart. resolved.yaml comes last: a folder that has it belongs to a run, also if a crash cuts off
// the removal of these files.
inline constexpr const char* kRunFiles[] = {"kernels.txt",    "memory.txt",   "metrics.jsonl", "samples.jsonl",
                                            "ledger",         "checkpoints",  "profile",       "error.json",
                                            "tokenizer.json", "resolved.yaml"};
inline constexpr char kEventFiles[] = "events.out.tfevents.";

// True for error-1.json and so on: tools/launcher/restarts.sh renames error.json before it starts a run again.
bool is_kept_report(const std::string& name);

struct FolderContents {
  std::vector<std::string> foreign = {};  // names that a run would replace, in a folder without resolved.yaml
  bool has_configuration = false;         // resolved.yaml exists
  bool has_records = false;       // metrics.jsonl or an event file has more than a run writes before its first step
  int64_t last_step = 0;          // the last step in metrics.jsonl
  int64_t last_checkpoint = 0;    // the last checkpoint that metrics.jsonl says is finished
  bool has_checkpoint = false;    // a finished checkpoint, good or damaged
  int64_t newest_checkpoint = 0;  // the step of the newest one

  // False also for a run that ended before its first step: nothing is lost if another run starts in its folder.
  bool holds_run() const { return has_records || has_checkpoint; }
};

// Throws Error(storage) if the folder cannot be read.
FolderContents contents_of(const std::string& folder);

}  // namespace strata::trainer
