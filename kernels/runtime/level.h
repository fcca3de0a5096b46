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

}  // namespace strata::kernels
