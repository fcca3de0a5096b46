// SPDX-License-Identifier: MIT
// Draws a pattern as an SVG picture: queries downwards, keys to the right.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

inline constexpr int64_t kMostCells = 64;  // in each direction

// The picture has cells of equal numbers of positions, at most 64 x 64, with a color for none, a part or all of its
// pairs. Its title is the text of the pattern and the share of pairs that are visible. The documents
// are those of compile_tiles.
std::string pattern_picture(const Pattern& pattern, int64_t positions, std::span<const int32_t> document_of = {});

}  // namespace strata::kernels
