// SPDX-License-Identifier: MIT
// The rule for every input of every target: it is accepted, or refused by an Error with the documented exit code
// and a short message that names the file, within 5 s of processor time. Memory is bounded by the programs that run the
// target.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/harness/target.h"

namespace strata::fuzz {

struct Verdict {
  bool accepted = false;
  std::string complaint;  // what is wrong with the reader; empty if nothing is
};

Verdict run_target(std::string_view bytes);

}  // namespace strata::fuzz
