// SPDX-License-Identifier: MIT
// fp8_operand with one scale: one kernel finds the largest number, block by block; the next reduces the results of the
// blocks, divides by the scale, rounds, and writes codes in rows and in columns.
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

template <class T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 4)
    amax_kernel(Fp8Cast cast, unsigned tiles, unsigned tiles_in_row) {
  wait_for_kernel_before();
  const Place place;
  Amax<T> amax;
  for (unsigned index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile tile(index, tiles_in_row);
    const Patch<T> patch(cast, tile.row + place.row, tile.column + place.column,
                         [](const uint4* vector) { return *vector; });
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
#pragma unroll
      for (int j = 0; j < kVectors<T>; ++j) amax.see(patch.vectors[i][j]);
    }
  }
  amax.store(cast.amax);
}

// One block for each tile. The numbers of the tile are on their way while the block reduces the partial results.
template <class T, Element kElement>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 3)
    cast_kernel(Fp8Cast cast, unsigned tiles_in_row) {
  wait_for_kernel_before();
  const Place place;
  const Tile tile(gridDim.x - 1 - blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  const uint4 partials = __ldcg(reinterpret_cast<const uint4*>(cast.amax) + threadIdx.x);
  const unsigned amax = block_max(max(max(partials.x, partials.y), max(partials.z, partials.w)));
  const float scale = scale_of<kElement>(amax);
  if (blockIdx.x == 0 && threadIdx.x == 0) *cast.rows_scale = scale;
  const Divisor divisor(scale);
  const CodePatch codes = codes_of<T, kElement>(patch, cast.rows - row, [&](int, int) { return divisor; });
  if (cast.row_codes != nullptr) store_rows(codes, cast, row, column);
  if (cast.column_codes != nullptr) store_columns(codes, cast, place, tile);
}

}  // namespace

cudaError_t launch_fp8_amax(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    const unsigned blocks = std::min(tiles, static_cast<unsigned>(kMostBlocksOfAmax));
    return visit_type(cast.type, [&]<class T>(T) {
      return launch_overlapped(amax_kernel<T>, blocks, kThreads, 0, stream, cast, tiles, tiles_in_row);
    });
  });
}

cudaError_t launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      const auto kernel = cast.element == Element::e4m3 ? cast_kernel<T, Element::e4m3> : cast_kernel<T, Element::e5m2>;
      return launch_overlapped(kernel, tiles, kThreads, 0, stream, cast, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
