// SPDX-License-Identifier: MIT
// The reductions of neighbor_aggregate and their names.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace strata::kernels {

enum class Reduction { sum, mean, max };

inline constexpr std::array<std::string_view, 3> kReductionNames = {"sum", "mean", "max"};

constexpr std::string_view name(Reduction reduction) { return kReductionNames[static_cast<size_t>(reduction)]; }

}  // namespace strata::kernels
