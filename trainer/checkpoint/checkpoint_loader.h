// SPDX-License-Identifier: MIT
// Finds the newest checkpoint that proves to be whole, and reads from it, on any number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace strata::trainer {

struct FindOptions {
  std::string folder;                // <run>/checkpoints
  bool required = false;             // no checkpoint at all is an error too
  std::optional<int64_t> step = {};  // this one and no other, which is then required
};

struct FoundCheckpoint {
  std::string path;
  Manifest manifest;               // step, state, tensors
  std::vector<int64_t> rejected;   // newer ones, damaged
  std::vector<std::string> notes;  // a sentence for each of them, and how many steps are lost
};

// Collective: every file is read by one rank. Nothing when `resume` is never, or is automatic and the folder has no
// checkpoint at all. Throws Error(storage) when there are checkpoints and none is whole, or when there must be one.
std::optional<FoundCheckpoint> find_checkpoint(const FindOptions& options, const Ranks& ranks);

// Fills the pieces, whatever number of ranks had written them. The pieces of all ranks together must name all tensors
// of the checkpoint, with their shapes and dtypes; otherwise Error(configuration) with the differences, and nothing is
// read. Collective.
void load_checkpoint(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces, const Ranks& ranks);

// Fills the pieces; tensors that are not asked for are left alone. Not collective.
void read_pieces(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces);

}  // namespace strata::trainer
