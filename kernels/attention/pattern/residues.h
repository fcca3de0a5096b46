// SPDX-License-Identifier: MIT
// Residues: a dilated pattern as one pattern that each residue of the positions has for itself. Positions that differ
// by no multiple of the step never see each other, so tiles of positions of one residue have no gaps.
#pragma once

#include <cstdint>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

struct Residues {
  int64_t step = 1;
  // Position i * step + r sees position j * step + r if i sees j in this pattern, and no position of another residue.
  Pattern pattern = {};
};

// The step is 1 if the pattern is not dilated(n, step) alone or joined by & with full, causal and window, or if the
// step does not divide the number of positions. It is also 1 if a residue has so few positions that most of its tiles
// would be empty, or if rows of a tile, `row_width` elements wide, would be 2^31 elements apart.
Residues residues_of(const Pattern& pattern, int64_t positions, int64_t row_width);

}  // namespace strata::kernels
