// SPDX-License-Identifier: MIT
// LevelTraits: what other files must know of a level, whatever the op. The devices are in
// kernels/runtime/kernel_table.h.
#pragma once

#include "kernels/runtime/level.h"

namespace strata::kernels {

struct LevelTraits {
  bool multiplies_by_libraries;  // linear layers and attention call cuBLAS or cuDNN on GPUs, which keep workspaces
  bool compiles_in_first_calls;  // no CUDA graph captures them, and they save other tensors than later calls
};

constexpr LevelTraits traits(Level level) {
  switch (level) {
    case Level::aten:
    case Level::aot_inductor:
    case Level::cuda:
      return {.multiplies_by_libraries = true, .compiles_in_first_calls = false};
    case Level::torchscript:
      return {.multiplies_by_libraries = true, .compiles_in_first_calls = true};
    case Level::triton:
      return {.multiplies_by_libraries = false, .compiles_in_first_calls = false};
  }
  return {};  // unreachable: the switch is complete
}

}  // namespace strata::kernels
