// SPDX-License-Identifier: MIT
// The largest magnitudes of up to 64 tensors in one kernel, which is bound by memory. A block reads a piece of one of
// them.
#include <limits>

#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/quantize/largest_magnitudes_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256, kVectors = 8;  // vectors of 16 bytes, which a thread loads at once

// Blocks first_block[i] to first_block[i + 1] read part i.
struct Work {
  PartsOfTensors parts;
  unsigned first_block[PartsOfTensors::kMost + 1];
};

template <class T>
__global__ void __launch_bounds__(kThreads) largest_magnitudes_kernel(const __grid_constant__ Work work) {
  wait_for_kernel_before();
  int part = 0, end = work.parts.count;
  while (end - part > 1) {
    const int middle = (part + end) / 2;
    (work.first_block[middle] <= blockIdx.x ? part : end) = middle;
  }
  const auto* const x = static_cast<const T*>(work.parts.x[part]);
  const int64_t elements = work.parts.elements[part], vectors = elements / kVectorWidth<T>;
  const int64_t first = (blockIdx.x - work.first_block[part]) * int64_t{kThreads * kVectors} + threadIdx.x;
  Packed<T> read[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int64_t vector = first + i * kThreads;
    read[i].words = vector < vectors ? __ldcs(reinterpret_cast<const uint4*>(x) + vector) : uint4{};
  }
  Amax<T> amax;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) amax.see(read[i]);
  // The last block of a part has its last elements, fewer than a vector.
  const int64_t rest = vectors * kVectorWidth<T> + threadIdx.x;
  if (blockIdx.x + 1 == work.first_block[part + 1] && rest < elements) amax.see(x[rest]);
  const unsigned most = block_max(amax.fp32_bits());
  auto* const largest = reinterpret_cast<unsigned*>(work.parts.largest[part]);
  // Most blocks have no larger number than those before them, and write nothing.
  if (threadIdx.x == 0 && most > __ldcg(largest)) atomicMax(largest, most);
}

}  // namespace

cudaError_t launch_largest_magnitudes(CudaType type, const PartsOfTensors& parts, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    Work work = {parts, {}};
    int64_t blocks = 0;
    for (int i = 0; i < parts.count; ++i) {
      blocks += ceil_divide<int64_t>(parts.elements[i], int64_t{kThreads} * kVectors * kVectorWidth<T>);
      if (blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidConfiguration;
      work.first_block[i + 1] = static_cast<unsigned>(blocks);
    }
    return launch_overlapped(largest_magnitudes_kernel<T>, static_cast<unsigned>(blocks), kThreads, 0, stream, work);
  });
}

}  // namespace strata::kernels
