// SPDX-License-Identifier: MIT
// Activation: the pointwise functions that op `activation` computes, and op `linear` as its epilogue.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace strata::kernels {

enum class Activation { none, gelu, gelu_tanh, relu, silu };

inline constexpr std::array<std::string_view, 5> kActivationNames = {"none", "gelu", "gelu_tanh", "relu", "silu"};

constexpr std::string_view name(Activation kind) { return kActivationNames[static_cast<size_t>(kind)]; }

}  // namespace strata::kernels
