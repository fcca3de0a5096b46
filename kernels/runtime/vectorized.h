// SPDX-License-Identifier: MIT
// STRATA_VECTORIZED: a function with loops of fp32, compiled for AVX2 and FMA and for any processor. The loader chooses
// the version when the program starts.
#pragma once

#define STRATA_VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
