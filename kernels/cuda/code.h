// SPDX-License-Identifier: MIT
// Code: what a .cu file is compiled as. A file with `portable = True` in its BUILD file is compiled as both.
#pragma once

namespace strata::kernels {

enum class Code {
  hopper,    // cubins for compute capability 9.0, with what only these GPUs have
  portable,  // PTX of compute_80, which the driver compiles for any GPU from 8.0 on
};

// What the file that includes this is compiled as: a Code, and the namespace of the launchers. Both objects are linked
// into one program. So each kernel, and each function that differs between them, has a Code among its template
// arguments, or is in this namespace or in one without a name. Otherwise the linker would take one of two for both.
#ifdef STRATA_PORTABLE
#define STRATA_THIS_CODE portable
#else
#define STRATA_THIS_CODE hopper
#endif
inline constexpr Code kThisCode = Code::STRATA_THIS_CODE;

}  // namespace strata::kernels
