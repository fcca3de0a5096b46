// SPDX-License-Identifier: MIT
// Reads the shape of an op from its text, so that an op can be timed at any sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::tools {

// Sizes of a text are at least 1, and their product is at most this one, so that numbers of elements fit into int64_t.
inline constexpr int64_t kLargestProduct = int64_t{1} << 56;

// Returns the shape of `op` whose text() is exactly `text`. Returns nothing for another text, for a size out of bounds,
// and for ops whose texts do not have all of their sizes: graphs, updates of weights and sum_of_squares. Attention has
// its pattern, without documents, terms of scores and parts of the queries.
std::optional<kernels::OpShape> parsed_shape(std::string_view op, const std::string& text);

}  // namespace strata::tools
