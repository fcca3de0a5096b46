// SPDX-License-Identifier: MIT
// A few tensors of awkward sizes, and the part of them that a rank holds. The tests of checkpoints save and load them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace strata::trainer {

// Returns the part of rank `rank`: each tensor is cut into `size` pieces of nearly the same length. Values are a
// function of (tensor, element, step). With filled == false they are all -1, as a target for loading.
std::vector<TensorPiece> small_model(int rank, int size, int64_t step, bool filled = true);

// Returns how the pieces differ from small_model(rank, size, step), or an empty text.
std::string difference_from(const std::vector<TensorPiece>& pieces, int rank, int size, int64_t step);

// Returns the state for this model. It has characters outside of ASCII and characters that JSON escapes.
std::string small_state(int64_t step);

// Returns what start_save takes, for a state that does not name the hash of the weights.
StateText fixed_state(std::string state);

// Saves synchronously, as a run on `size` ranks does. Throws if it was not committed.
void save_small_model(const std::string& folder, int size, int64_t step, int64_t keep = 2);

}  // namespace strata::trainer
