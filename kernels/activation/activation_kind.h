// SPDX-License-Identifier: MIT
// Activation: the pointwise functions that op `activation` computes, and op `linear` as its epilogue.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata::kernels {

// A new kind is one more enumerator. No switch over kinds has a default, so what does not know it does not compile.
enum class Activation { none, gelu, gelu_tanh, relu, silu };

constexpr std::string_view name(Activation kind) {
  switch (kind) {
    case Activation::none:
      return "none";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::relu:
      return "relu";
    case Activation::silu:
      return "silu";
  }
  return {};
}

// True if the derivative needs the input of the activation.
constexpr bool needs_input(Activation kind) {
  switch (kind) {
    case Activation::gelu:
    case Activation::gelu_tanh:
    case Activation::silu:
      return true;
    case Activation::none:
    case Activation::relu:
      return false;
  }
  return false;
}

// True if the derivative follows from the output of the activation. Op linear then saves the output.
constexpr bool saves_output(Activation kind) {
  switch (kind) {
    case Activation::relu:
      return true;
    case Activation::none:
    case Activation::gelu:
    case Activation::gelu_tanh:
    case Activation::silu:
      return false;
  }
  return false;
}

// True if op linear can end in this activation.
constexpr bool is_epilogue(Activation kind) {
  switch (kind) {
    case Activation::none:
    case Activation::gelu:
    case Activation::gelu_tanh:
    case Activation::relu:
      return true;
    case Activation::silu:
      return false;
  }
  return false;
}

// True if op swiglu can have this activation at its gate. It has functions of its own for each.
constexpr bool is_gate(Activation kind) {
  switch (kind) {
    case Activation::gelu_tanh:
    case Activation::silu:
      return true;
    case Activation::none:
    case Activation::gelu:
    case Activation::relu:
      return false;
  }
  return false;
}

// True if activation(c x) = c activation(x) for all c >= 0. Dropout may then come before the activation or after it.
constexpr bool is_homogeneous(Activation kind) {
  switch (kind) {
    case Activation::none:
    case Activation::relu:
      return true;
    case Activation::gelu:
    case Activation::gelu_tanh:
    case Activation::silu:
      return false;
  }
  return false;
}

// The number of a kind in activation_triton.py, where a kind without a branch would be the identity.
constexpr int64_t triton_number(Activation kind) {
  switch (kind) {
    case Activation::none:
      return 0;
    case Activation::gelu:
      return 1;
    case Activation::gelu_tanh:
      return 2;
    case Activation::relu:
      return 3;
    case Activation::silu:
      return 4;
  }
  return -1;
}

}  // namespace strata::kernels
