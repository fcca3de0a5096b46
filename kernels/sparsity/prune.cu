// SPDX-License-Identifier: MIT
// The mask of kernels/sparsity/prune.h in one pass over the weight, with the same bits. A thread has a group of four.
#include <algorithm>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/sparsity/prune_cuda.h"
#include "kernels/sparsity/prune_group.h"

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

template <template <class> class Function>
cudaError_t launch(CudaType type, void* results, const void* weight, int64_t groups, cudaStream_t stream) {
  if (groups == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min(ceil_divide<int64_t>(groups, kThreads), int64_t{1} << 30));
  return visit_type(type, [&]<class T>(T) {
    prune_kernel<T, Function<T>>
        <<<blocks, kThreads, 0, stream>>>(static_cast<Vector<typename Function<T>::Result, kGroup>*>(results),
                                          static_cast<const Vector<Bits<T>, kGroup>*>(weight), groups, Function<T>{});
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_prune(CudaType type, void* pruned, const void* weight, int64_t groups, cudaStream_t stream) {
  return launch<Pruned>(type, pruned, weight, groups, stream);
}

cudaError_t launch_kept_of_four(CudaType type, bool* kept, const void* weight, int64_t groups, cudaStream_t stream) {
  return launch<Kept>(type, kept, weight, groups, stream);
}

}  // namespace strata::kernels
