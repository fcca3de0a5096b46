// SPDX-License-Identifier: MIT
// Op cases that run a text as the definition of their op, so that a test can change the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/proof/op_case.h"

namespace strata::kernels {

// Instead of `attention`: its cases with all terms of scores. Most mistakes in the text are meant for scores without a
// sink.
inline constexpr std::string_view kAttentionWithTerms = "attention_with_terms";

// Its cases whose queries are a part of each row.
inline constexpr std::string_view kAttentionOfPart = "attention_of_part";

// Returns cases of an op with the leaves and bounds of the op's own cases. They run `definition`, whatever the level.
// `definition` is the whole text of the op's `.py` file.
std::vector<OpCase> defined_cases(std::string_view op, const std::string& definition);

}  // namespace strata::kernels
