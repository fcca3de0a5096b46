// SPDX-License-Identifier: MIT
// For targets whose reader has a writer: what the writer makes of an accepted input must be accepted too.
#pragma once

#include "tests/fuzz/harness/target.h"

namespace strata::fuzz {

// Returns read(). A refusal is a finding, because the text is Strata's own and not the input.
template <class Read>
auto read_again(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Broken{std::string("what was written is refused: ") + error.what()};
  }
}

}  // namespace strata::fuzz
