// SPDX-License-Identifier: MIT
// Computes activations of one number, for tests that compute with loops.
#pragma once

#include <cmath>

#include "kernels/activation/activation_kind.h"

namespace strata::kernels {

inline double plain_activation(double x, Activation kind) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
  }
  return NAN;
}

}  // namespace strata::kernels
