// SPDX-License-Identifier: MIT
// Activation: the pointwise functions that op `activation` computes, and op `linear` as its epilogue.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata::kernels {

// A new kind is one more enumerator. No switch over kinds has a default, so what does not know it does not compile.
enum class Activation { none, gelu, gelu_tanh, relu, silu };

struct ActivationTraits {
  std::string_view name = "unknown";
  // The number in activation_triton.py. A launch of level triton refuses a number that its kernel has no branch for.
  int64_t triton_number = -1;
  bool needs_input = false;   // the derivative needs the input of the activation
  bool saves_output = false;  // the derivative follows from the output, which op linear then saves
  bool is_epilogue = false;   // op linear can end in this activation
  bool is_gate = false;       // op swiglu can have it at its gate, and has functions of its own for it
  // activation(c x) = c activation(x) for all c >= 0. Dropout may then come before the activation or after it.
  bool is_homogeneous = false;
};

// The table of all kinds. activation_triton_test.py reads it, and compares the kernels of level triton with it.
constexpr ActivationTraits traits_of(Activation kind) {
  switch (kind) {
    case Activation::none:
      return {.name = "none", .triton_number = 0, .is_epilogue = true, .is_homogeneous = true};
    case Activation::gelu:
      return {.name = "gelu", .triton_number = 1, .needs_input = true, .is_epilogue = true};
    case Activation::gelu_tanh:
      return {.name = "gelu_tanh", .triton_number = 2, .needs_input = true, .is_epilogue = true, .is_gate = true};
    case Activation::relu:
      return {.name = "relu", .triton_number = 3, .saves_output = true, .is_epilogue = true, .is_homogeneous = true};
    case Activation::silu:
      return {.name = "silu", .triton_number = 4, .needs_input = true, .is_gate = true};
  }
  return {};
}

constexpr std::string_view name(Activation kind) { return traits_of(kind).name; }
constexpr bool needs_input(Activation kind) { return traits_of(kind).needs_input; }
constexpr bool saves_output(Activation kind) { return traits_of(kind).saves_output; }
constexpr bool is_epilogue(Activation kind) { return traits_of(kind).is_epilogue; }
constexpr bool is_gate(Activation kind) { return traits_of(kind).is_gate; }
constexpr bool is_homogeneous(Activation kind) { return traits_of(kind).is_homogeneous; }
constexpr int64_t triton_number(Activation kind) { return traits_of(kind).triton_number; }

}  // namespace strata::kernels
