// SPDX-License-Identifier: MIT
// fp8_operand with one scale: one kernel finds the largest number, block by block; the next reduces the results of the
// blocks, divides by the scale, rounds, and writes codes in rows and in columns. With a delayed scale the first kernel
// ends at once if there is a history, and the second one finds the largest number for later steps.
//
// Both visit tiles (fp8_codes.cuh), the second in the opposite order, so that it finds the tiles that the first read
// last in the L2 cache.
#include <algorithm>

#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/quantize/fp8_codes.cuh"

namespace strata::kernels {
namespace {

constexpr int kMostBlocksOfAmax = 4 * kMultiprocessors;
static_assert(kMostBlocksOfAmax <= kAmaxPartials && kAmaxPartials == 4 * kThreads);

__device__ bool has_history(const Fp8Cast& cast) { return cast.past != nullptr && __ldcg(cast.past) > 0; }

template <class T>
__device__ void see(Amax<T>& amax, const Patch<T>& patch) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int j = 0; j < kVectors<T>; ++j) amax.see(patch.vectors[i][j]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 4)
    amax_kernel(Fp8Cast cast, unsigned tiles, unsigned tiles_in_row) {
  wait_for_kernel_before();
  if (has_history(cast)) return;
  const Place place;
  Amax<T> amax;
  for (unsigned index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile tile(index, tiles_in_row);
    see(amax,
        Patch<T>(cast, tile.row + place.row, tile.column + place.column, [](const uint4* vector) { return *vector; }));
  }
  amax.store(cast.amax);
}

// The largest magnitude that the kernel before has found. Called by all threads of the block.
__device__ unsigned found_amax(const Fp8Cast& cast) {
  const uint4 partials = __ldcg(reinterpret_cast<const uint4*>(cast.amax) + threadIdx.x);
  return block_max(max(max(partials.x, partials.y), max(partials.z, partials.w)));
}

// Most blocks have no larger number than those before them, and write nothing. Called by all threads of the block.
template <class T>
__device__ void record(const Amax<T>& amax, unsigned* present) {
  __syncthreads();  // found_amax() has called block_max() too
  const unsigned most = block_max(amax.fp32_bits());
  if (threadIdx.x == 0 && most > __ldcg(present)) atomicMax(present, most);
}

// One block for each tile. The numbers of the tile are on their way while the block reduces the partial results.
template <class T, Element kElement, bool kIsDelayed>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 3)
    cast_kernel(Fp8Cast cast, unsigned tiles_in_row) {
  wait_for_kernel_before();
  const Place place;
  const Tile tile(gridDim.x - 1 - blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  const bool has_past = kIsDelayed && has_history(cast);
  const float scale = scale_of<kElement>(has_past ? __float_as_uint(__ldcg(cast.past)) : found_amax(cast));
  if (blockIdx.x == 0 && threadIdx.x == 0) *cast.rows_scale = scale;
  Amax<T> seen;
  if constexpr (kIsDelayed) see(seen, patch);
  const Divisor divisor(scale);
  const CodePatch codes = codes_of<T, kElement>(patch, cast.rows - row, [&](int, int) { return divisor; });
  if (cast.row_codes != nullptr) store_rows(codes, cast, row, column);
  if (cast.column_codes != nullptr) store_columns(codes, cast, place, tile);
  if constexpr (kIsDelayed) {
    if (cast.present != nullptr) record(seen, cast.present);
  }
}

template <class T, bool kIsDelayed>
auto cast_kernel_of(Element element) {
  return element == Element::e4m3 ? cast_kernel<T, Element::e4m3, kIsDelayed>
                                  : cast_kernel<T, Element::e5m2, kIsDelayed>;
}

}  // namespace

cudaError_t launch_fp8_amax(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    // With a delayed scale it has work in the first steps only, and fewer blocks end sooner.
    const int most_blocks = cast.past == nullptr ? kMostBlocksOfAmax : kMultiprocessors;
    const unsigned blocks = std::min(tiles, static_cast<unsigned>(most_blocks));
    return visit_type(cast.type, [&]<class T>(T) {
      return launch_overlapped(amax_kernel<T>, blocks, kThreads, 0, stream, cast, tiles, tiles_in_row);
    });
  });
}

cudaError_t launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      const auto kernel =
          cast.past == nullptr ? cast_kernel_of<T, false>(cast.element) : cast_kernel_of<T, true>(cast.element);
      return launch_overlapped(kernel, tiles, kThreads, 0, stream, cast, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
