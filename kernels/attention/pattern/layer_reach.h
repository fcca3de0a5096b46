// SPDX-License-Identifier: MIT
// How far a layer of attention carries tokens backwards: from each key to the queries that see it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

// `last` has the last token that has reached each position of a row of one document. Returns the last tokens
// after one more layer. A layer adds to its input, so a token stays where it has arrived.
//
// Rectangles of queries and keys are halved both ways, down to 64 x 64 pairs. A rectangle is skipped if all of its
// queries have later tokens than its keys, or if PairCounter shows that no pair is visible. So a first layer takes time
// that grows with the length of the row if only distances and borders of prefixes decide. With blocks, hashes of all
// pairs of blocks may be needed. A later layer with gaps between keys may look at all rectangles that have visible
// pairs.
std::vector<int64_t> reached_after_layer(const Program& program, const std::vector<int64_t>& last);

}  // namespace strata::kernels
