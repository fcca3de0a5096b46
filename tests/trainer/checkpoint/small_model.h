// SPDX-License-Identifier: MIT
// A few tensors of awkward sizes, and the part of them that a rank would hold: what the tests of checkpoints save and
// load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

namespace strata::trainer {

// Every tensor cut into `size` runs of nearly the same length; the values are a function of (tensor, element, step).
// With filled == false they are -1 everywhere, to be loaded into.
std::vector<TensorPiece> small_model(int rank, int size, int64_t step, bool filled = true);

// What differs from small_model(rank, size, step), or an empty text.
std::string difference_from(const std::vector<TensorPiece>& pieces, int rank, int size, int64_t step);

// The state that goes with it: not plain ASCII, and with what JSON escapes.
std::string small_state(int64_t step);

// Saves synchronously as a run on `size` ranks would; throws when it was not committed.
void save_small_model(const std::string& folder, int size, int64_t step, int64_t keep = 2);

}  // namespace strata::trainer
