// SPDX-License-Identifier: MIT
// STRATA_VECTORIZED: a function with loops, compiled for AVX2 and FMA and for any processor. The loader chooses the
// version when the program starts. ThreadSanitizer would instrument the function that chooses, which runs before
// ThreadSanitizer itself does, so that the program would crash. For it there is one version.
#pragma once

#ifdef __SANITIZE_THREAD__
#define STRATA_VECTORIZED
#else
#define STRATA_VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
