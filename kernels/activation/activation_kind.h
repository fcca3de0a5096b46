// SPDX-License-Identifier: MIT
// The pointwise activations, which `activation` computes alone and `linear` as its epilogue.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace strata::kernels {

enum class Activation { none, gelu, gelu_tanh, relu, silu };

inline constexpr std::array<std::string_view, 5> kActivationNames = {"none", "gelu", "gelu_tanh", "relu", "silu"};

constexpr std::string_view name(Activation kind) { return kActivationNames[static_cast<size_t>(kind)]; }

}  // namespace strata::kernels
