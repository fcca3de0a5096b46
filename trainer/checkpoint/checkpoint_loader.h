// SPDX-License-Identifier: MIT
// Finds the newest checkpoint that is intact, and reads tensors from it, on any number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ranks.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace strata::trainer {

struct FindOptions {
  std::string folder;                // <run>/checkpoints
  bool required = false;             // a folder without checkpoints is an error
  std::optional<int64_t> step = {};  // only the checkpoint of this step, which must exist
};

struct FoundCheckpoint {
  std::string path;
  Manifest manifest;               // step, state, files and tensors
  std::vector<int64_t> rejected;   // newer checkpoints that are damaged
  std::vector<std::string> notes;  // a sentence for each rejected checkpoint, the lost steps, and unknown files
};

// This is a collective: each file is verified by one rank. Returns nothing if the folder has no checkpoint and neither
// `required` nor `step` is set. A checkpoint whose contents are not those that were written is rejected, and an older
// one is used. Throws Error(storage) if no checkpoint is intact, if one is required and there is none, or if one could
// not be read: such an error may pass, and steps would be lost.
std::optional<FoundCheckpoint> find_checkpoint(const FindOptions& options, const Ranks& ranks);

// Fills the pieces, for any number of ranks that wrote the checkpoint. The pieces of all ranks together must name all
// tensors of the checkpoint with their shapes and dtypes. Otherwise throws Error(configuration) with the differences
// and reads nothing. This is a collective.
void load_checkpoint(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces, const Ranks& ranks);

// Fills the pieces and ignores all other tensors of the checkpoint. This is not a collective.
void read_pieces(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces);

}  // namespace strata::trainer
