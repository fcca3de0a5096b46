// SPDX-License-Identifier: MIT
// Finds queries that see no key, whose softmax would be 0 / 0.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// Returns the first query that sees no key in a row of `positions`, for some packing of documents. No word takes
// pairs away, so the packing that shows least decides: each position is a document of its own.
std::optional<int64_t> find_blind_query(const Pattern& pattern, int64_t positions);

// Throws an Error with ExitCode::configuration that names the pattern and the row if there is such a query.
void check_every_query_sees_a_key(const Pattern& pattern, int64_t positions);

}  // namespace strata::kernels
