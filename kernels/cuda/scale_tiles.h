// SPDX-License-Identifier: MIT
// Scale tiles: where cuBLASLt reads the scales of blocks, such as 32 elements of a row. Each scale is a byte.
//
// A tile has the scales of 128 rows and 4 blocks of each, 512 bytes. Tiles of the same rows follow each other. In a
// tile the 4 scales of a row are together, and 16 bytes have those of rows r, r + 32, r + 64 and r + 96. Tiles are
// whole: rows and blocks that a matrix does not have get zeros. Source: NVIDIA, cuBLAS 13, "1D Block Scaling Factors
// Layout".
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::kernels {

inline constexpr int kScaleTileRows = 128, kScaleTileBlocks = 4;
inline constexpr int kScaleTileBytes = kScaleTileRows * kScaleTileBlocks;

// The byte of a scale in its tile. row < 128, block < 4.
__host__ __device__ inline int place_in_scale_tile(int row, int block) {
  return row % 32 * 16 + row / 32 * kScaleTileBlocks + block;
}

__host__ __device__ inline int64_t scale_tiles_of_row(int64_t blocks) {
  return (blocks + kScaleTileBlocks - 1) / kScaleTileBlocks;
}

// The byte of the scale of a block of a row. `blocks` is the number of blocks in each row of the matrix.
__host__ __device__ inline int64_t scale_place(int64_t row, int64_t block, int64_t blocks) {
  const int64_t tile = row / kScaleTileRows * scale_tiles_of_row(blocks) + block / kScaleTileBlocks;
  return tile * kScaleTileBytes +
         place_in_scale_tile(static_cast<int>(row % kScaleTileRows), static_cast<int>(block % kScaleTileBlocks));
}

// The bytes of all tiles of a matrix.
inline int64_t scale_tile_bytes(int64_t rows, int64_t blocks) {
  return (rows + kScaleTileRows - 1) / kScaleTileRows * scale_tiles_of_row(blocks) * kScaleTileBytes;
}

}  // namespace strata::kernels
