// SPDX-License-Identifier: MIT
// The definition of a pattern: whether one query sees one key. Everything else in this room agrees with it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// `document_of` has the id of the document of each position. Only patterns with the word documents read it.
bool sees(const Pattern& pattern, int64_t query, int64_t key, std::span<const int32_t> document_of = {});

}  // namespace strata::kernels
