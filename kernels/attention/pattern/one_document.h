// SPDX-License-Identifier: MIT
// Facts of a pattern that are known before its documents are: kernels start from the tiles of one document.
#pragma once

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// Returns the pattern where all positions are one document. No word takes pairs away, so it sees what the pattern sees
// with any documents, and more.
Pattern for_one_document(const Pattern& pattern);

// True if the pattern is documents, alone or joined by &, so that pairs of two documents are never visible.
bool keeps_documents_apart(const Pattern& pattern);

}  // namespace strata::kernels
