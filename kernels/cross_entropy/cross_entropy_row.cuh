// SPDX-License-Identifier: MIT
// LogitSums and Row: partial sums over the logits of a row, and the loss and gradient that are computed from them.
#pragma once

#include "kernels/activation/activation_math.cuh"
#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Partial sums of a row. `exponentials` is the sum of exp(x - largest), which cannot overflow. `logits` is the sum of
// x, which only label smoothing needs. `target_logit` is the logit of the target, 0 if it is in another part.
struct alignas(16) LogitSums {
  float largest, exponentials, logits, target_logit;

  __device__ static constexpr LogitSums nothing() { return {-INFINITY, 0.0f, 0.0f, 0.0f}; }
  // The number that is subtracted from logits before exp. A part whose logits are all below -3e8 has the sum 0. The
  // bound avoids -infinity - -infinity, which is NaN; and from -1e9 on the rounding error of base * log2(e), an
  // exponent, could exceed 127.
  __device__ float base() const { return fmaxf(largest, -3e8f); }
  // `exponentials` is the sum of 2^(x * log2(e) - exponent()). The exponent is rounded, for a base of 300 by up to
  // 2^-16. All terms use the same rounded number, so the sum and its terms are off by the same factor, which cancels in
  // a probability.
  __device__ float exponent() const { return __fmul_rn(base(), kLog2E); }
};

// Returns x * log2(e) - exponent without rounding the product.
__device__ inline float above(float x, float exponent) { return fmaf(x, kLog2E, -exponent); }

__device__ inline LogitSums warp_merge(const LogitSums& part) {
  LogitSums whole = part;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    whole.largest = fmaxf(whole.largest, __shfl_xor_sync(0xffffffff, whole.largest, offset));
  }
  whole.exponentials = warp_sum(part.exponentials * exp2f(part.exponent() - whole.exponent()));
  whole.logits = warp_sum(part.logits);
  whole.target_logit = warp_sum(part.target_logit);
  return whole;
}

// Merges the parts of all threads; every thread gets the result. `turn` alternates between 0 and 1, so a warp that is
// one call ahead writes the other half. Before a warp is two calls ahead it passes a barrier that all warps reach only
// after they have read.
__device__ inline LogitSums block_merge(LogitSums part, int turn) {
  __shared__ LogitSums warps[2][kWarp];
  part = warp_merge(part);
  if (threadIdx.x % kWarp == 0) warps[turn][threadIdx.x / kWarp] = part;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp_merge(lane < static_cast<int>(blockDim.x) / kWarp ? warps[turn][lane] : LogitSums::nothing());
}

template <class T>
__device__ float exp2_of(float x) {
  return kIsHalf<T> ? fast_exp2(x) : exp2f(x);
}

// The largest element of some vectors. One instruction compares two 16-bit elements.
template <class T, int kCount>
__device__ float largest_of(const Packed<T> (&x)[kCount]) {
  if constexpr (kIsHalf<T>) {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    Pair largest = *reinterpret_cast<const Pair*>(&x[0].words.x);
#pragma unroll
    for (int i = 1; i < 4 * kCount; ++i) {
      const unsigned word = x[i / 4].word(i % 4);
      largest = __hmax2(largest, *reinterpret_cast<const Pair*>(&word));
    }
    return fmaxf(to_float(largest.x), to_float(largest.y));
  } else {
    float largest = x[0].at(0);
#pragma unroll
    for (int i = 1; i < 4 * kCount; ++i) largest = fmaxf(largest, x[i / 4].at(i % 4));
    return largest;
  }
}

// Adds vectors of logits to the part. They lie `step` elements apart. Only the elements of the first `summed` places,
// counted from the first vector's begin, are added to the sum of x.
template <class T, int kCount>
__device__ void add(LogitSums& part, const Packed<T> (&x)[kCount], int summed, int step) {
  constexpr int N = kVectorWidth<T>, kChains = 4;
  const float largest = largest_of(x);
  if (largest > part.largest) {
    const float before = part.exponent();
    part.largest = largest;
    part.exponentials *= exp2_of<T>(before - part.exponent());
  }
  const float exponent = part.exponent();
  float sums[kChains] = {};  // independent of each other, so that additions do not wait
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k % kChains] += exp2_of<T>(above(x[i].at(k), exponent));
  }
  part.exponentials += (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int left = summed - i * step;
    if (left <= 0) break;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (k < left) part.logits += x[i].at(k);
    }
  }
}

// The loss of a row, and the numbers from which its gradient is computed.
struct Row {
  float loss;
  // gradient = factor * 2^(x * log2(e) - exponent) - everywhere, minus at_target for the target
  float exponent, factor;
  float everywhere, at_target;

  template <class T>
  __device__ float gradient(float x) const {
    return fmaf(factor, exp2_of<T>(above(x, exponent)), -everywhere);
  }
};

__device__ inline Row finish(const LogitSums& part, float scale, const CrossEntropyArguments& a) {
  const float classes = static_cast<float>(a.classes), base = part.base(), exponent = part.exponent();
  const float everywhere = a.label_smoothing / classes, rest = 1.0f - a.label_smoothing;
  // The logarithm of the sum of exp(x - base), without the common factor by which the terms are off.
  const float log_total = logf(part.exponentials) - above(base, exponent) * kLn2;
  // The base is subtracted from the logits first: large logits and the logarithm of a sum of exp would cancel.
  const float logits = a.label_smoothing != 0.0f ? part.logits - classes * base : 0.0f;
  return {log_total - rest * (part.target_logit - base) - everywhere * logits, exponent, scale / part.exponentials,
          scale * everywhere, scale * rest};
}

__device__ inline void require_class(int64_t target, const CrossEntropyArguments& a) {
  if (target < 0 || target >= a.classes) __trap();
}

// Stores the results of a row that is ignored: its loss and its gradient are 0. `threads` threads share its elements.
template <class Element>
__device__ void store_ignored(const CrossEntropyArguments& a, int64_t row, Element* gradient, int64_t count, int thread,
                              int threads) {
  if (a.gradient != nullptr) {
    for (int64_t i = thread; i < count; i += threads) __stcs(gradient + i, Element{});
  }
  if (thread == 0) a.row_losses[row] = 0.0f;
}

// Stores the gradient of vector i. Only one vector of a row has the target.
template <class T>
__device__ void store_gradient(uint4* gradient, int i, Packed<T> x, const Row& row, int target) {
  constexpr int N = kVectorWidth<T>;
  if (target >= i * N && target < (i + 1) * N) {
    x.fill([&](int k) { return row.gradient<T>(x.at(k)) - (k == target - i * N ? row.at_target : 0.0f); });
  } else {
    x.fill([&](int k) { return row.gradient<T>(x.at(k)); });
  }
  __stcs(gradient + i, x.words);
}

}  // namespace strata::kernels
