// SPDX-License-Identifier: MIT
// sample_by_loops: sample() on CPUs, where starting the operators of ATen takes longer than their work.
#pragma once

#include "tools/generation/sample.h"

namespace strata::generation {

// logits on the CPU. `draw` is the random number, 0 <= draw < 1.
Tensor sample_by_loops(const Tensor& logits, const Sampling& sampling, double draw);

}  // namespace strata::generation
