// SPDX-License-Identifier: MIT
// The five levels of optimization and their names in YAML. An op has one kernel per level, or the reason why it has
// none.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace strata::kernels {

enum class Level { aten, torchscript, aot_inductor, triton, cuda };

inline constexpr std::array<std::string_view, 5> kLevelNames = {"aten", "torchscript", "aot_inductor", "triton",
                                                                "cuda"};

// The level of kernels that a library outside of the tree brings (kernels/candidate.h). Only `bench kernels --library`
// calls it: configurations, plans and lists of levels do without it.
inline constexpr Level kLibraryLevel = static_cast<Level>(kLevelNames.size());

constexpr std::string_view name(Level level) {
  return level == kLibraryLevel ? "library" : kLevelNames[static_cast<size_t>(level)];
}

// What other files must know of a level, whatever the op. The devices are in kernels/runtime/kernel_table.h.
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
