// SPDX-License-Identifier: MIT
// fp8_operand with one scale for each row of the codes: one kernel finds the largest numbers of rows and of columns;
// the next divides by the scales, rounds, and writes codes in rows and in columns. An element has two codes, because
// the scales of its row and of its column differ.
#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/quantize/fp8_codes.cuh"

namespace strata::kernels {
namespace {

constexpr int kWarps = kThreads / kWarp, kRowsOfWarp = kWarp;
template <class T>
constexpr int kStrip = kWarp* kVectorWidth<T>;  // columns of a block

// A warp reads 32 rows of a strip, one vector in each lane, and a block reads 256 rows.
template <class T>
__global__ void __launch_bounds__(kThreads) row_amax_kernel(Fp8Cast cast, unsigned strips) {
  __shared__ unsigned warp_column_amax[kWarps][kStrip<T>];
  wait_for_kernel_before();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t row = (blockIdx.x / strips * kWarps + warp) * static_cast<int64_t>(kRowsOfWarp);
  const int64_t first_column = static_cast<int64_t>(blockIdx.x % strips) * kStrip<T>;
  const int64_t column = first_column + lane * kVectorWidth<T>;
  const T* x = static_cast<const T*>(cast.x) + row * cast.row_stride + column;
  unsigned largest = 0;  // largest magnitude of row + lane, as the bits of fp32
  Packed<T> column_amax = {};
#pragma unroll 8
  for (int i = 0; i < kRowsOfWarp; ++i) {
    Packed<T> vector = {};
    if (row + i < cast.rows && column < cast.columns) {
      vector.words = *reinterpret_cast<const uint4*>(x + i * cast.row_stride);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) column_amax.word(k) = larger_magnitudes<T>(column_amax.word(k), vector.word(k));
    Amax<T> amax;
    amax.see(vector);
    const unsigned most = __reduce_max_sync(0xffffffff, amax.fp32_bits());
    if (lane == i) largest = most;
  }
  if (row + lane < cast.rows) atomicMax(cast.amax + row + lane, largest);
#pragma unroll
  for (int k = 0; k < kVectorWidth<T>; ++k) {
    warp_column_amax[warp][lane * kVectorWidth<T> + k] = __float_as_uint(column_amax.at(k));
  }
  __syncthreads();
  const int strip_column = static_cast<int>(threadIdx.x);
  if (strip_column >= kStrip<T> || first_column + strip_column >= cast.columns) return;
  unsigned largest_in_column = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) largest_in_column = max(largest_in_column, warp_column_amax[i][strip_column]);
  atomicMax(cast.amax + cast.rows + first_column + strip_column, largest_in_column);
}

// The divisor of one of the 128 rows of a tile, or of its 128 columns. Tiles at the edge of the matrix write the
// scales.
template <Element kElement>
__device__ Divisor divisor_of_line(const Fp8Cast& cast, const Tile& tile) {
  const bool is_row = threadIdx.x < kTile;
  const int64_t line = (is_row ? tile.row : tile.column) + threadIdx.x % kTile;
  if (line >= (is_row ? cast.rows : cast.columns)) return Divisor(1);
  const float scale = scale_of<kElement>(__ldcg(cast.amax + (is_row ? 0 : cast.rows) + line));
  float* scales = is_row ? cast.rows_scale : cast.columns_scale;
  const bool is_at_edge = (is_row ? tile.column : tile.row) == 0;
  if (is_at_edge && scales != nullptr) scales[line] = scale;
  return Divisor(scale);
}

// One block for each tile. The numbers of the tile are on their way while each thread makes the divisor of a line.
template <class T, Element kElement>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 3)
    row_cast_kernel(Fp8Cast cast, unsigned tiles_in_row) {
  __shared__ Divisor divisors[2 * kTile];
  static_assert(kThreads == 2 * kTile);
  wait_for_kernel_before();
  const Place place;
  const Tile tile(gridDim.x - 1 - blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  divisors[threadIdx.x] = divisor_of_line<kElement>(cast, tile);
  __syncthreads();
  if (cast.row_codes != nullptr) {
    const Divisor* row_divisors = divisors + place.row;
    const auto row_divisor = [&](int i, int) { return row_divisors[i]; };
    store_rows(codes_of<T, kElement>(patch, cast.rows - row, row_divisor), cast, row, column);
  }
  if (cast.column_codes != nullptr) {
    const Divisor* column_divisors = divisors + kTile + place.column;
    const auto column_divisor = [&](int, int k) { return column_divisors[k]; };
    store_columns(codes_of<T, kElement>(patch, cast.rows - row, column_divisor), cast, place, tile);
  }
}

}  // namespace

cudaError_t launch_fp8_row_amax(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_type(cast.type, [&]<class T>(T) {
    const int64_t strips = ceil_divide<int64_t>(cast.columns, kStrip<T>);
    const int64_t blocks = strips * ceil_divide<int64_t>(cast.rows, kWarps * kRowsOfWarp);
    if (blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidConfiguration;
    return launch_overlapped(row_amax_kernel<T>, static_cast<unsigned>(blocks), kThreads, 0, stream, cast,
                             static_cast<unsigned>(strips));
  });
}

cudaError_t launch_fp8_row_cast(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      const bool is_e4m3 = cast.element == Element::e4m3;
      const auto kernel = is_e4m3 ? row_cast_kernel<T, Element::e4m3> : row_cast_kernel<T, Element::e5m2>;
      return launch_overlapped(kernel, tiles, kThreads, 0, stream, cast, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
