// SPDX-License-Identifier: MIT
// The activations and their derivatives for one element in fp32 registers. 16-bit types T use the two fastest
// instructions, ex2.approx and rcp.approx, whose error is below the rounding of T. With expf, erff and a true division
// gelu of bf16 is bound by arithmetic, not by memory.
#pragma once

#include <cuda_runtime.h>

#include "kernels/activation/activation_kind.h"

namespace strata::kernels {

template <class T>
inline constexpr bool kIsHalf = sizeof(T) == 2;

// 2^x and 1 / x with a relative error of 2^-22. Numbers below 2^-126 become 0; without this each costs two more
// instructions.
__device__ inline float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

template <class T>
__device__ inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504f;
  return kIsHalf<T> ? fast_exp2(x * kLog2E) : expf(x);
}

template <class T>
__device__ inline float reciprocal(float x) {
  return kIsHalf<T> ? fast_reciprocal(x) : 1.0f / x;
}

template <class T>
__device__ inline float sigmoid(float x) {
  return reciprocal<T>(1.0f + exponential<T>(-x));
}

// sigmoid(x) * sigmoid(-x). In fp32 each factor has its own relative accuracy: 1 - sigmoid(x) would lose 2^-25, which
// the derivative of gelu_tanh multiplies by 35 at x = 5.
template <class T>
__device__ inline float sigmoid_slope(float x, float sigmoid_of_x) {
  if constexpr (kIsHalf<T>) {
    return sigmoid_of_x * (1.0f - sigmoid_of_x);
  } else {
    const float decay = expf(-fabsf(x)), larger = 1.0f / (1.0f + decay);
    return decay * larger * larger;
  }
}

// The probability that a standard normal number is below x, and the density at x.
struct Normal {
  float below, density;
};

template <class T>
__device__ inline Normal normal(float x) {
  constexpr float kInverseRoot2 = 0.70710678f, kInverseRoot2Pi = 0.39894228f;
  const float decay = exponential<T>(-0.5f * x * x);
  if constexpr (!kIsHalf<T>) {
    return {0.5f * erfcf(-x * kInverseRoot2), kInverseRoot2Pi * decay};
  } else {
    // Abramowitz and Stegun 7.1.26: erfc(z) = (a1 t + ... + a5 t^5) exp(-z^2) with t = 1 / (1 + p z) and an error of
    // 1.5e-7. Small values keep their relative accuracy, because exp(-z^2) is a factor.
    const float t = reciprocal<T>(fmaf(0.3275911f * kInverseRoot2, fabsf(x), 1.0f));
    float polynomial = fmaf(1.061405429f, t, -1.453152027f);
    polynomial = fmaf(polynomial, t, 1.421413741f);
    polynomial = fmaf(polynomial, t, -0.284496736f);
    polynomial = fmaf(polynomial, t, 0.254829592f);
    const float tail = 0.5f * polynomial * t * decay;
    return {x >= 0.0f ? 1.0f - tail : tail, kInverseRoot2Pi * decay};
  }
}

// gelu_tanh(x) = x * (1 + tanh(u)) / 2 = x * sigmoid(2 u) with 2 u = x (kA + kB x^2). This form keeps its relative
// accuracy if tanh(u) is near -1.
inline constexpr float kGeluTanhA = 2.0f * 0.79788456f, kGeluTanhB = kGeluTanhA * 0.044715f;

template <Activation kKind, class T>
__device__ inline float activate(float x) {
  if constexpr (kKind == Activation::gelu) {
    return x * normal<T>(x).below;
  } else if constexpr (kKind == Activation::gelu_tanh) {
    return x * sigmoid<T>(x * fmaf(kGeluTanhB, x * x, kGeluTanhA));
  } else if constexpr (kKind == Activation::relu) {
    return x <= 0.0f ? 0.0f : x;  // a NaN stays NaN
  } else {
    static_assert(kKind == Activation::silu);
    return x * sigmoid<T>(x);
  }
}

// The derivative of the activation at x.
template <Activation kKind, class T>
__device__ inline float activate_derivative(float x) {
  if constexpr (kKind == Activation::gelu) {
    const Normal at_x = normal<T>(x);
    return fmaf(x, at_x.density, at_x.below);
  } else if constexpr (kKind == Activation::gelu_tanh) {
    const float square = x * x;
    const float inner = x * fmaf(kGeluTanhB, square, kGeluTanhA), share = sigmoid<T>(inner);
    return fmaf(sigmoid_slope<T>(inner, share) * x, fmaf(3.0f * kGeluTanhB, square, kGeluTanhA), share);
  } else if constexpr (kKind == Activation::relu) {
    return x <= 0.0f ? 0.0f : 1.0f;
  } else {
    static_assert(kKind == Activation::silu);
    const float share = sigmoid<T>(x);
    return fmaf(sigmoid_slope<T>(x, share), x, share);
  }
}

}  // namespace strata::kernels
