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

constexpr std::string_view name(Level level) { return kLevelNames[static_cast<size_t>(level)]; }

}  // namespace strata::kernels
