// SPDX-License-Identifier: MIT
// fp8_operand in NVFP4: codes of 4 bits with one scale for each 16 elements of a row of the codes, and one for the
// tensor, for which the kernel of fp8_amax.cu has found the largest number. Blocks lie within a tile of 128 x 128
// numbers, along its rows and along its columns. The scales of a tile are two scale tiles for its rows, and two for its
// columns.
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/scale_tiles.h"
#include "kernels/quantize/block_operand_cuda.h"
#include "kernels/quantize/block_scales.h"
#include "kernels/quantize/fp8_amax.cuh"

namespace strata::kernels {
namespace {

constexpr int kBlock = block_size(Scaling::nv), kBlocks = kTile / kBlock, kScaleTiles = kBlocks / kScaleTileBlocks;
constexpr int kWords = kScaleTileBytes / sizeof(unsigned);
constexpr float kLargestOfTensor = kLargest<Element::e2m1> * kLargest<Element::e4m3>;
static_assert(kTile == kScaleTileRows && kScaleTiles == 2 && kThreads == 2 * kWords && kBlock == 2 * kPatch);

// Scale tiles in shared memory, of the rows and of the columns.
using ScaleTiles = uint8_t[2][kScaleTiles][kScaleTileBytes];

// A column of the tile has 64 bytes in shared memory, at a pitch and in an order without bank conflicts of 4-byte
// stores.
constexpr int kCodesInWord = 8, kWordsOfColumn = kTile / kCodesInWord, kPitch = kWordsOfColumn + 4;
__device__ int line_of(int column) { return column % kPatch * (kTile / kPatch) + column / kPatch; }

// Stores the scale of a block, and returns the divisor. Lines outside the matrix have zeros as scales.
__device__ Divisor block_divisor(unsigned amax, float tensor_scale, bool is_inside, bool stores, uint8_t* scale) {
  const unsigned code = codes_of_two<Element::e4m3>(nv_scale_of(amax, tensor_scale), 0) & 0xff;
  if (stores) *scale = is_inside ? code : 0;
  return Divisor(value_of_e4m3(code) * tensor_scale);
}

__device__ uint8_t* scale_in(ScaleTiles& scales, int half, int line, int block) {
  return scales[half][block / kScaleTileBlocks] + place_in_scale_tile(line, block % kScaleTileBlocks);
}

// The divisors of the rows of a patch. 2 adjacent lanes have the 16 elements of a block.
template <class T>
__device__ void divide_rows(const Patch<T>& patch, const Fp8Cast& cast, const Place& place, const Tile& tile,
                            float tensor_scale, ScaleTiles& scales, Divisor (&divisors)[kPatch]) {
  const bool has_column = tile.column + place.column < cast.columns, stores = place.column % kBlock == 0;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const unsigned patch_amax = largest_of_row(patch, i),
                   most = max(patch_amax, __shfl_xor_sync(0xffffffff, patch_amax, 1));
    const bool is_inside = has_column && tile.row + place.row + i < cast.rows;
    divisors[i] =
        block_divisor(most, tensor_scale, is_inside, stores, scale_in(scales, 0, place.row + i, place.column / kBlock));
  }
}

// The divisors of the columns of a patch. 2 lanes of a warp have the 16 elements of a block.
template <class T>
__device__ void divide_columns(const Patch<T>& patch, const Fp8Cast& cast, const Place& place, const Tile& tile,
                               float tensor_scale, ScaleTiles& scales, Divisor (&divisors)[kPatch]) {
  const bool has_row = tile.row + place.row < cast.padded_rows, stores = place.row % kBlock == 0;
  unsigned largest[kPatch];
  find_largest_of_columns(patch, largest);
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    const unsigned most = max(largest[k], __shfl_xor_sync(0xffffffff, largest[k], 8));
    const bool is_inside = has_row && tile.column + place.column + k < cast.columns;
    divisors[k] =
        block_divisor(most, tensor_scale, is_inside, stores, scale_in(scales, 1, place.column + k, place.row / kBlock));
  }
}

__device__ unsigned packed_line(const CodePatch& codes, int line) {
  return packed_codes(codes.word(line, 0), codes.word(line, 1));
}

__device__ void store_packed_rows(const CodePatch& codes, const Fp8Cast& cast, int64_t row, int64_t column) {
  if (column >= cast.columns) return;
  uint8_t* first = cast.row_codes + (row * cast.columns + column) / 2;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    if (row + i < cast.rows) *reinterpret_cast<unsigned*>(first + i * (cast.columns / 2)) = packed_line(codes, i);
  }
}

// Called by all threads of the block.
__device__ void store_packed_columns(const CodePatch& codes, const Fp8Cast& cast, const Place& place,
                                     const Tile& tile) {
  __shared__ alignas(16) unsigned shared[kTile * kPitch];
  const CodePatch columns = codes.transposed();
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    shared[line_of(place.column + k) * kPitch + place.row / kCodesInWord] = packed_line(columns, k);
  }
  __syncthreads();
  constexpr int kChunks = kWordsOfColumn / 4, kCodesInChunk = kTile / kChunks;  // chunks of 16 bytes
  const int chunk = threadIdx.x % kChunks;
  const int64_t row = tile.row + chunk * kCodesInChunk;
  if (row >= cast.padded_rows) return;
#pragma unroll
  for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
    const int column = threadIdx.x / kChunks + i * (kThreads / kChunks);
    if (tile.column + column >= cast.columns) return;
    *reinterpret_cast<uint4*>(cast.column_codes + ((tile.column + column) * cast.padded_rows + row) / 2) =
        *reinterpret_cast<const uint4*>(shared + line_of(column) * kPitch + 4 * chunk);
  }
}

// Stores the scale tiles that the matrix has, from shared memory. Blocks of the last tile that it does not have are 0.
__device__ void store_scales(const ScaleTiles& scales, const Fp8Cast& cast, const BlockScales& to, const Tile& tile) {
  const int half = threadIdx.x / kWords, word = threadIdx.x % kWords;
  uint8_t* const tiles = half == 0 ? to.row_scales : to.column_scales;
  if (tiles == nullptr) return;
  const int64_t line = half == 0 ? tile.row : tile.column;
  const int64_t first = (half == 0 ? tile.column : tile.row) / kBlock;
  const int64_t blocks = (half == 0 ? cast.columns : cast.padded_rows) / kBlock;
#pragma unroll
  for (int i = 0; i < kScaleTiles; ++i) {
    const int64_t block = first + i * kScaleTileBlocks;
    if (block >= blocks) return;
    reinterpret_cast<unsigned*>(tiles + scale_place(line, block, blocks))[word] =
        reinterpret_cast<const unsigned*>(scales[half][i])[word];
  }
}

// One block for each tile. The numbers of the tile are on their way while the block reduces the partial results.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) nv_cast_kernel(Fp8Cast cast, BlockScales to, unsigned tiles_in_row) {
  __shared__ alignas(16) ScaleTiles scales;
  wait_for_kernel_before();
  const Place place;
  const Tile tile(gridDim.x - 1 - blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const Patch<T> patch(cast, row, column, [](const uint4* vector) { return __ldcs(vector); });
  const float tensor_scale = scale_of(found_amax(cast), kLargestOfTensor);
  if (blockIdx.x == 0 && threadIdx.x == 0) *cast.rows_scale = tensor_scale;
  Divisor divisors[kPatch];
  if (cast.row_codes != nullptr) {
    divide_rows(patch, cast, place, tile, tensor_scale, scales, divisors);
    const auto row_divisor = [&](int i, int) { return divisors[i]; };
    store_packed_rows(codes_of<T, Element::e2m1>(patch, cast.rows - row, row_divisor), cast, row, column);
  }
  if (cast.column_codes != nullptr) {
    divide_columns(patch, cast, place, tile, tensor_scale, scales, divisors);
    const auto column_divisor = [&](int, int k) { return divisors[k]; };
    store_packed_columns(codes_of<T, Element::e2m1>(patch, cast.rows - row, column_divisor), cast, place, tile);
  }
  __syncthreads();
  store_scales(scales, cast, to, tile);
}

}  // namespace

cudaError_t launch_nv_cast(const Fp8Cast& cast, const BlockScales& scales, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return visit_type(cast.type, [&]<class T>(T) {
      return launch_overlapped(nv_cast_kernel<T>, tiles, kThreads, 0, stream, cast, scales, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
