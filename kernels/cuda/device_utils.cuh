// SPDX-License-Identifier: MIT
// Utilities of all CUDA kernels: element types, 16-byte vectors, sums over a warp and over a block.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float to_float(__half value) { return __half2float(value); }

template <class T>
__device__ inline T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return T(value);  // rounds to nearest even
  }
}

// Three types hold adjacent elements:
//   Vector<T, N>  an array of N elements, also of fewer than 16 bytes. A kernel indexes it as any array.
//   Packed<T>     16 bytes that stay in registers between load and use. Pairs of 16-bit elements share a register.
//   Word<kBytes>  the machine word by which load_streaming and store_streaming move such a value. Only they name it.

// Loaded and stored by one instruction of up to 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T elements[N];
};

// Number of elements of T in 16 bytes.
template <class T>
inline constexpr int kVectorWidth = 16 / sizeof(T);

// True if all pointers are 16-byte aligned. A null pointer stands for a missing tensor and counts as aligned.
template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// In an array the compiler would give each element a register of its own.
template <class T>
struct Packed {
  static constexpr int kWidth = kVectorWidth<T>;
  static constexpr int kPerWord = kWidth / 4;
  uint4 words;

  // Indices are compile-time constants after unrolling.
  __device__ unsigned& word(int i) { return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w; }
  __device__ unsigned word(int i) const { return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w; }

  __device__ float at(int k) const {
    const unsigned bits = word(k / kPerWord);
    if constexpr (kPerWord == 1) {
      return __uint_as_float(bits);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return __uint_as_float(k % 2 == 0 ? bits << 16 : bits & 0xffff0000u);
    } else {
      return __half2float(__ushort_as_half(static_cast<unsigned short>(k % 2 == 0 ? bits : bits >> 16)));
    }
  }

  // Sets every element k to value(k).
  template <class Value>
  __device__ void fill(Value value) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kPerWord == 1) {
        word(i) = __float_as_uint(value(i));
      } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(value(2 * i), value(2 * i + 1));
        word(i) = *reinterpret_cast<const unsigned*>(&pair);
      } else {
        const __half2 pair = __floats2half2_rn(value(2 * i), value(2 * i + 1));
        word(i) = *reinterpret_cast<const unsigned*>(&pair);
      }
    }
  }

  // Hides the values from the compiler. It then unpacks them again at their next use instead of keeping fp32 copies,
  // which take twice the registers.
  __device__ void stay_packed() { asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)); }
};

template <int kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// Load and store with the streaming hint for data that is touched once. Such data leaves the caches first, so that data
// which is read again stays.
template <class V>
__device__ inline V load_streaming(const V* pointer) {
  using W = typename Word<sizeof(V)>::Type;
  V value;
  *reinterpret_cast<W*>(&value) = __ldcs(reinterpret_cast<const W*>(pointer));
  return value;
}

template <class V>
__device__ inline void store_streaming(V* pointer, const V& value) {
  using W = typename Word<sizeof(V)>::Type;
  __stcs(reinterpret_cast<W*>(pointer), *reinterpret_cast<const W*>(&value));
}

// Calls visit(T{}) with the element type T of `type`.
template <class Visit>
cudaError_t visit_type(CudaType type, Visit visit) {
  switch (type) {
    case CudaType::float32:
      return visit(float{});
    case CudaType::bfloat16:
      return visit(__nv_bfloat16{});
    case CudaType::float16:
      return visit(__half{});
  }
  return cudaErrorInvalidValue;
}

template <class Integer>
constexpr Integer ceil_divide(Integer a, Integer b) {
  return (a + b - 1) / b;
}

inline constexpr int kWarp = 32;

__device__ inline float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}

// Returns the sum over all threads of the block to every thread, always added in the same order. blockDim.x is a
// multiple of 32.
__device__ inline float block_sum(float value) {
  __shared__ float warps[32];
  value = warp_sum(value);
  __syncthreads();  // all warps have read the sums of the previous call
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  const int count = static_cast<int>(blockDim.x) / kWarp;
  return warp_sum(static_cast<int>(threadIdx.x) % kWarp < count ? warps[threadIdx.x % kWarp] : 0.0f);
}

}  // namespace strata::kernels
