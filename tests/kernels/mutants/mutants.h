// SPDX-License-Identifier: MIT
// Wrong kernels that the proofs must refuse. Each is the definition of an op with one small mistake in its text, of the
// kind that people make when they optimize.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::kernels {

struct Mutant {
  std::string_view formula;   // folder and file of the definition in kernels/, without `.py`
  std::string_view function;  // an op, kAttentionWithTerms or kAttentionOfPart; or empty: all ops of the file
  std::string_view right, wrong;
};

const std::vector<Mutant>& mutants();

// Returns a mutant for each pair of right and wrong text.
std::vector<Mutant> mutants_of(std::string_view formula, std::string_view function,
                               const std::vector<std::pair<std::string_view, std::string_view>>& mistakes);

// Returns the text of a definition with the mistake. `kept(x)` in a mistake rounds x to `bits` significant bits.
std::string mutated(const std::string& definition, const Mutant& mutant, int bits);

}  // namespace strata::kernels
