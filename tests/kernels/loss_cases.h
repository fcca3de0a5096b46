// SPDX-License-Identifier: MIT
// The cases of cross_entropy and linear_cross_entropy, a part of op_cases().
#pragma once

#include <vector>

#include "tests/kernels/op_cases.h"

namespace strata::kernels {

std::vector<OpCase> loss_cases();

// Cases with logits of some hundreds, whose exp overflows. In half of the rows the target has the largest logit and a
// probability near 1.
std::vector<OpCase> large_logit_cases();

}  // namespace strata::kernels
