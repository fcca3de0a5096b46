// SPDX-License-Identifier: MIT
// fp8_operand with one scale: the kernel of fp8_amax.cu finds the largest number, block by block; the one here reduces
// the results of the blocks, divides by the scale, rounds, and writes codes in rows and in columns. With a history of a
// delayed scale the first kernel ends at once, and the second one finds the largest number for later steps, unless it
// is known.
//
// Both visit tiles (fp8_codes.cuh), the second in the opposite order, so that it finds the tiles that the first read
// last in the L2 cache.
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/quantize/fp8_amax.cuh"

namespace strata::kernels {
namespace {

// Most blocks have no larger number than those before them, and write nothing.
__device__ void record(unsigned amax, unsigned* present) {
  if (threadIdx.x == 0 && amax > __ldcg(present)) atomicMax(present, amax);
}

// One block for each tile. The numbers of the tile are on their way while the block reduces the partial results. With a
// history nobody needs these for the scale: each block finds the largest number of its tile (kFindsAmax), or block 0
// records the one that is known.
template <class T, Element kElement, bool kFindsAmax>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 3)
    cast_kernel(Fp8Cast cast, unsigned tiles_in_row) {
  wait_for_kernel_before();
  const Place place;
  const Tile tile(gridDim.x - 1 - blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  const bool has_past = has_history(cast), finds = kFindsAmax && has_past;
  const bool records = cast.present != nullptr && (finds || blockIdx.x == 0);
  unsigned amax = !has_past || (records && !finds) ? found_amax(cast) : 0;
  const float scale = scale_of<kElement>(has_past ? __float_as_uint(__ldcg(cast.past)) : amax);
  if (blockIdx.x == 0 && threadIdx.x == 0) *cast.rows_scale = scale;
  Amax<T> seen;
  if (finds) see(seen, patch);
  const Divisor divisor(scale);
  const CodePatch codes = codes_of<T, kElement>(patch, cast.rows - row, [&](int, int) { return divisor; });
  if (cast.row_codes != nullptr) store_rows(codes, cast, row, column);
  if (cast.column_codes != nullptr) store_columns(codes, cast, place, tile);
  if (finds) amax = block_max(seen.fp32_bits());
  if (records) record(amax, cast.present);
}

template <class T, bool kFindsAmax>
auto cast_kernel_of(Element element) {
  return element == Element::e4m3 ? cast_kernel<T, Element::e4m3, kFindsAmax>
                                  : cast_kernel<T, Element::e5m2, kFindsAmax>;
}

}  // namespace

cudaError_t launch_fp8_cast(const Fp8Cast& cast, bool finds_amax, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      const auto kernel = finds_amax ? cast_kernel_of<T, true>(cast.element) : cast_kernel_of<T, false>(cast.element);
      return launch_overlapped(kernel, tiles, kThreads, 0, stream, cast, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
