// SPDX-License-Identifier: MIT
// The masks of kernels/sparsity/prune.h in one pass over the weight, with the bits of the CPU. A thread has a group of
// four, or the 4 x 4 elements of four rows.
#include <algorithm>
#include <utility>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/sparsity/prune_cuda.h"
#include "kernels/sparsity/prune_group.h"
#include "kernels/sparsity/transposable_patterns.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256, kGroup = static_cast<int>(kPruneGroup);

// The bits of an element as an unsigned integer. Without the sign they are ordered as the magnitudes, and a NaN is
// above infinity.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;

template <class T>
constexpr Bits<T> kInfinity = sizeof(T) == 4                     ? 0x7f800000
                              : std::is_same_v<T, __nv_bfloat16> ? 0x7f80
                                                                 : 0x7c00;

template <class T>
__device__ inline unsigned magnitude(Bits<T> bits) {
  constexpr unsigned kAll = sizeof(T) == 4 ? 0x7fffffffu : 0x7fffu;
  return min(static_cast<unsigned>(bits) & kAll, unsigned{kInfinity<T>} + 1);  // all NaN are equal
}

// Bit i of the result: element i is one of the two largest. Of equal ones the first is the larger.
template <class T>
__device__ inline unsigned kept_bits(const Vector<Bits<T>, kGroup>& group) {
  unsigned magnitudes[kGroup];
  int exceeded[kGroup] = {};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) magnitudes[i] = magnitude<T>(group.elements[i]);
#pragma unroll
  for (int first = 0; first < kGroup; ++first) {
#pragma unroll
    for (int second = first + 1; second < kGroup; ++second) {
      const bool first_wins = magnitudes[first] >= magnitudes[second];
      exceeded[first] += first_wins;
      exceeded[second] += !first_wins;
    }
  }
  unsigned kept = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) kept |= unsigned{exceeded[i] >= kGroup / 2} << i;
  return kept;
}

template <class T>
struct Pruned {
  using Result = Bits<T>;
  __device__ Result operator()(Bits<T> bits, bool kept) const { return kept ? bits : Bits<T>{0}; }
};

template <class T>
struct Kept {
  using Result = bool;
  __device__ Result operator()(Bits<T>, bool kept) const { return kept; }
};

template <class T, class Function>
__global__ void __launch_bounds__(kThreads)
    prune_kernel(Vector<typename Function::Result, kGroup>* results, const Vector<Bits<T>, kGroup>* weight,
                 int64_t groups, Function function) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups; i += step) {
    const auto group = load_streaming(weight + i);
    const unsigned kept = kept_bits<T>(group);
    Vector<typename Function::Result, kGroup> result;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) result.elements[k] = function(group.elements[k], (kept >> k & 1) != 0);
    results[i] = result;
  }
}

template <class T>
__device__ inline float value_of(Bits<T> bits) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(bits);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __half2float(__ushort_as_half(bits));
  } else {
    return __uint_as_float(unsigned{bits} << 16);
  }
}

// Keeps the pattern if its sum is larger than all sums before it.
template <int kPattern>
__device__ inline void try_pattern(const float (&sums)[4][kRowPairs], float& largest, unsigned& kept) {
  constexpr int kFirst = kTransposablePatterns.pair[kPattern][0], kSecond = kTransposablePatterns.pair[kPattern][1];
  constexpr int kThird = kTransposablePatterns.pair[kPattern][2], kFourth = kTransposablePatterns.pair[kPattern][3];
  constexpr unsigned kKept = kTransposablePatterns.kept[kPattern];
  const float sum = sums[0][kFirst] + sums[1][kSecond] + sums[2][kThird] + sums[3][kFourth];
  if (sum > largest) {
    largest = sum;
    kept = kKept;
  }
}

// Bit 4 * row + column of the result: the element is kept.
template <class T>
__device__ inline unsigned kept_bits_of_tile(const Vector<Bits<T>, kGroup> (&tile)[4]) {
  float sums[4][kRowPairs];
#pragma unroll
  for (int row = 0; row < 4; ++row) {
    float magnitudes[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float size = fabsf(value_of<T>(tile[row].elements[i]));
      magnitudes[i] = size <= kLargestMagnitude ? size : kLargestMagnitude;  // also of NaN
    }
    int pair = 0;  // in the order of row_pair()
#pragma unroll
    for (int first = 0; first < kGroup; ++first) {
#pragma unroll
      for (int second = first + 1; second < kGroup; ++second) {
        sums[row][pair++] = magnitudes[first] + magnitudes[second];
      }
    }
  }
  float largest = -1;
  unsigned kept = 0;
  [&]<int... kPatterns>(std::integer_sequence<int, kPatterns...>) {
    (try_pattern<kPatterns>(sums, largest, kept), ...);
  }
  (std::make_integer_sequence<int, TransposablePatterns::kCount>());
  return kept;
}

template <class T, class Function>
__global__ void __launch_bounds__(kThreads)
    prune_tiles_kernel(Vector<typename Function::Result, kGroup>* results, const Vector<Bits<T>, kGroup>* weight,
                       int64_t tiles, int64_t groups_of_row, Function function) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < tiles; i += step) {
    const int64_t first = i / groups_of_row * 4 * groups_of_row + i % groups_of_row;
    Vector<Bits<T>, kGroup> tile[4];
#pragma unroll
    for (int row = 0; row < 4; ++row) tile[row] = load_streaming(weight + first + row * groups_of_row);
    const unsigned kept = kept_bits_of_tile<T>(tile);
#pragma unroll
    for (int row = 0; row < 4; ++row) {
      Vector<typename Function::Result, kGroup> result;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        result.elements[k] = function(tile[row].elements[k], (kept >> (4 * row + k) & 1) != 0);
      }
      results[first + row * groups_of_row] = result;
    }
  }
}

template <template <class> class Function>
cudaError_t launch(CudaType type, PruneMask mask, void* results, const void* weight, PruneSizes sizes,
                   cudaStream_t stream) {
  const int64_t groups_of_row = sizes.width / kGroup, groups = sizes.rows * groups_of_row;
  if (groups == 0) return cudaSuccess;
  const int64_t work = mask == PruneMask::rows ? groups : groups / 4;
  const auto blocks = static_cast<unsigned>(std::min(ceil_divide<int64_t>(work, kThreads), int64_t{1} << 30));
  return visit_type(type, [&]<class T>(T) {
    auto* const to = static_cast<Vector<typename Function<T>::Result, kGroup>*>(results);
    const auto* const from = static_cast<const Vector<Bits<T>, kGroup>*>(weight);
    if (mask == PruneMask::rows) {
      prune_kernel<T><<<blocks, kThreads, 0, stream>>>(to, from, work, Function<T>{});
    } else {
      prune_tiles_kernel<T><<<blocks, kThreads, 0, stream>>>(to, from, work, groups_of_row, Function<T>{});
    }
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_prune(CudaType type, PruneMask mask, void* pruned, const void* weight, PruneSizes sizes,
                         cudaStream_t stream) {
  return launch<Pruned>(type, mask, pruned, weight, sizes, stream);
}

cudaError_t launch_kept_of_four(CudaType type, PruneMask mask, bool* kept, const void* weight, PruneSizes sizes,
                                cudaStream_t stream) {
  return launch<Kept>(type, mask, kept, weight, sizes, stream);
}

}  // namespace strata::kernels
