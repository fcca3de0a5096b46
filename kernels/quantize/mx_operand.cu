// SPDX-License-Identifier: MIT
// fp8_operand with one scale for each 32 elements of a row of the codes (MXFP8). Such blocks lie within a tile of 128 x
// 128 numbers, along its rows and along its columns. So one kernel reads the matrix once. The scales of a tile are one
// scale tile for its rows, and one for its columns.
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/scale_tiles.h"
#include "kernels/quantize/block_operand_cuda.h"
#include "kernels/quantize/block_scales.h"
#include "kernels/quantize/fp8_amax.cuh"

namespace strata::kernels {
namespace {

constexpr int kBlock = block_size(Scaling::mx), kWarps = kThreads / kWarp;
constexpr int kWords = kScaleTileBytes / sizeof(unsigned);
static_assert(kTile == kScaleTileRows && kTile / kBlock == kScaleTileBlocks);
static_assert(kThreads == 2 * kWords && kBlock == 4 * kPatch);

// Scale tiles in shared memory, of the rows and of the columns.
using ScaleTiles = uint8_t[2][kScaleTileBytes];

// Division by the scale of a block.
class BlockDivisor {
 public:
  BlockDivisor() = default;
  __device__ explicit BlockDivisor(unsigned code) { inverse_ = inverse_of_e8m0(code); }
  __device__ float quotient(float x) const { return x * inverse_; }

 private:
  float inverse_;
};

// The divisors of the rows of a patch. 4 adjacent lanes have the 32 elements of a block.
template <class T, Element kElement>
__device__ void divide_rows(const Patch<T>& patch, const Place& place, ScaleTiles& scales,
                            BlockDivisor (&divisors)[kPatch]) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    unsigned most = largest_of_row(patch, i);
    most = max(most, __shfl_xor_sync(0xffffffff, most, 1));
    most = max(most, __shfl_xor_sync(0xffffffff, most, 2));
    const unsigned code = e8m0_of<kElement>(most);
    divisors[i] = BlockDivisor(code);
    if (place.column % kBlock == 0) scales[0][place_in_scale_tile(place.row + i, place.column / kBlock)] = code;
  }
}

// The divisors of the columns of a patch. Two warps have the 32 elements of a block. Called by all threads of the
// block.
template <class T, Element kElement>
__device__ void divide_columns(const Patch<T>& patch, const Place& place, ScaleTiles& scales,
                               BlockDivisor (&divisors)[kPatch]) {
  __shared__ unsigned warp_amax[kWarps][kPatch][kTile / kPatch];
  unsigned largest[kPatch];
  find_largest_of_columns(patch, largest);
  const int warp = threadIdx.x / kWarp, patch_column = place.column / kPatch;
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    // With the other 8 rows of the warp.
    const unsigned most = max(largest[k], __shfl_xor_sync(0xffffffff, largest[k], 8));
    if (place.row % (2 * kPatch) == 0) warp_amax[warp][k][patch_column] = most;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    const unsigned most = max(warp_amax[warp][k][patch_column], warp_amax[warp ^ 1][k][patch_column]);
    const unsigned code = e8m0_of<kElement>(most);
    divisors[k] = BlockDivisor(code);
    if (place.row % kBlock == 0) scales[1][place_in_scale_tile(place.column + k, place.row / kBlock)] = code;
  }
}

// Numbers outside the matrix are zeros, and the scale of a block of zeros is 0. So whole scale tiles are stored.
template <class T, Element kElement>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 3)
    mx_cast_kernel(Fp8Cast cast, BlockScales to, unsigned tiles_in_row) {
  __shared__ alignas(16) ScaleTiles scales;
  wait_for_kernel_before();
  const Place place;
  const Tile tile(blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  BlockDivisor divisors[kPatch];
  if (cast.row_codes != nullptr) {
    divide_rows<T, kElement>(patch, place, scales, divisors);
    const auto row_divisor = [&](int i, int) { return divisors[i]; };
    store_rows(codes_of<T, kElement>(patch, cast.rows - row, row_divisor), cast, row, column);
  }
  if (cast.column_codes != nullptr) {
    divide_columns<T, kElement>(patch, place, scales, divisors);
    const auto column_divisor = [&](int, int k) { return divisors[k]; };
    store_columns(codes_of<T, kElement>(patch, cast.rows - row, column_divisor), cast, place, tile);
  }
  __syncthreads();
  const int half = threadIdx.x / kWords, word = threadIdx.x % kWords;
  uint8_t* const tiles = half == 0 ? to.row_scales : to.column_scales;
  if (tiles == nullptr) return;
  const int64_t first = half == 0 ? scale_place(tile.row, tile.column / kBlock, cast.columns / kBlock)
                                  : scale_place(tile.column, tile.row / kBlock, cast.padded_rows / kBlock);
  reinterpret_cast<unsigned*>(tiles + first)[word] = reinterpret_cast<const unsigned*>(scales[half])[word];
}

}  // namespace

cudaError_t launch_mx_cast(const Fp8Cast& cast, const BlockScales& scales, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      const bool is_e4m3 = cast.element == Element::e4m3;
      const auto kernel = is_e4m3 ? mx_cast_kernel<T, Element::e4m3> : mx_cast_kernel<T, Element::e5m2>;
      return launch_overlapped(kernel, tiles, kThreads, 0, stream, cast, scales, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
