// SPDX-License-Identifier: MIT
// The GPUs for which levels triton, cuda and aot_inductor are compiled.
#pragma once

#include <string>
#include <string_view>

#include "kernels/runtime/level.h"

namespace strata::kernels {

// Returns "" if code of `level` runs on a GPU of compute capability major.minor, otherwise a sentence that says what it
// needs and which levels run there. `gpu` is the name of the GPU.
std::string why_not_on_gpu(Level level, std::string_view gpu, int major, int minor);

}  // namespace strata::kernels
