// SPDX-License-Identifier: MIT
// The codes of a tile in the two layouts of fp8_operand.h: division by the scales, rounding, and stores.
//
// A tile has 128 x 128 elements, and a thread 8 rows of 8 columns of it. The thread transposes its codes in registers,
// and the block transposes the tile in shared memory.
#pragma once

#include <limits>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/quantize/block_scales.h"
#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {

inline constexpr int kTile = 128, kPatch = 8;  // rows and columns of a tile, and of a thread
inline constexpr int kThreads = (kTile / kPatch) * (kTile / kPatch);
inline constexpr int kChunk = 16, kChunksInColumn = kTile / kChunk;  // codes that one instruction moves
inline constexpr unsigned kExponents = 0x7f800000, kInfinity = kExponents;
template <Element kElement>
inline constexpr float kLargest = facts_of(kElement).largest;

template <class T>
inline constexpr int kVectors = kPatch / kVectorWidth<T>;  // vectors of a thread in a row

// Where a thread works in a tile: rows row .. row + 7 and columns column .. column + 7. Lanes 0 to 7 of a warp have
// adjacent columns of some rows, lanes 8 to 15 the same columns of the next 8 rows, and lanes 16 to 31 the other
// columns of the tile. store_columns() below then has no bank conflicts.
struct Place {
  int row, column;

  __device__ Place() {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    row = (warp * 2 + lane / 8 % 2) * kPatch;
    column = (lane % 8 + lane / 16 * 8) * kPatch;
  }
};

// The first row and column of a tile.
struct Tile {
  int64_t row, column;

  __device__ Tile(unsigned index, unsigned tiles_in_row)
      : row(static_cast<int64_t>(index / tiles_in_row) * kTile),
        column(static_cast<int64_t>(index % tiles_in_row) * kTile) {}
};

// The numbers of a thread. Those outside the matrix are zeros.
template <class T>
struct Patch {
  Packed<T> vectors[kPatch][kVectors<T>];

  template <class Load>
  __device__ Patch(const Fp8Cast& cast, int64_t row, int64_t column, Load load) {
    const T* first = static_cast<const T*>(cast.x) + row * cast.row_stride + column;
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const bool inside = row + i < cast.rows && column < cast.columns;
      const auto* vector = reinterpret_cast<const uint4*>(first + i * cast.row_stride);
#pragma unroll
      for (int j = 0; j < kVectors<T>; ++j) vectors[i][j].words = inside ? load(vector + j) : uint4{};
    }
  }
};

// Division by a scale. With mantissa m of the scale and r = 1 / m, rounded, q = t * r is nearly t / m, and
// q + (t - q * m) * r is t / m, rounded to nearest even wherever a code depends on it (Markstein, IBM Journal of
// Research and Development 34, 1990). t is x without the exponent of the scale, so nothing overflows. t is subnormal
// only if the code is 0. The signs are such that the quotient of -0 is -0.
class Divisor {
 public:
  Divisor() = default;
  __device__ explicit Divisor(float scale) {
    factor_ = __uint_as_float(0x7f000000u - (__float_as_uint(scale) & kExponents));
    mantissa_ = scale * factor_;
    inverse_ = __frcp_rn(mantissa_);
  }

  __device__ float quotient(float x) const {
    const float t = x * factor_, near = t * inverse_;
    return __fmaf_rn(-__fmaf_rn(near, mantissa_, -t), inverse_, near);
  }

 private:
  float factor_, mantissa_, inverse_;  // a power of 2, in [1, 2), in (0.5, 1]; a scale of NaN makes the mantissa NaN
};

// max(amax / largest, 2^-117), or NaN if amax is not finite.
__device__ inline float scale_of(unsigned amax, float largest) {
  if (amax >= kInfinity) return __uint_as_float(0x7fffffffu);
  return fmaxf(__fdiv_rn(__uint_as_float(amax), largest), kSmallestFp8Scale);
}
template <Element kElement>
__device__ float scale_of(unsigned amax) {
  return scale_of(amax, kLargest<kElement>);
}

// Two codes, rounded to nearest even, saturated; 0x7f for NaN, or 0 in e2m1. The code of `low` is in the low byte.
template <Element kElement>
__device__ unsigned codes_of_two(float low, float high) {
  if constexpr (kElement == Element::e2m1) return e2m1_of(low) | e2m1_of(high) << 8;
  unsigned short codes;
  if constexpr (kElement == Element::e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  }
  return codes;
}

// The codes of 8 rows of 8 columns, or of 8 columns of 8 rows.
struct CodePatch {
  uint2 lines[kPatch];

  __device__ unsigned word(int line, int half) const { return half == 0 ? lines[line].x : lines[line].y; }

  __device__ CodePatch transposed() const {
    CodePatch result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // halves of the lines of the result
      unsigned words[2][4];
#pragma unroll
      for (int part = 0; part < 2; ++part) transpose(half, part, words[part]);
#pragma unroll
      for (int i = 0; i < 4; ++i) result.lines[4 * half + i] = {words[0][i], words[1][i]};
    }
    return result;
  }

 private:
  // The transpose of 4 lines from 4 * part on and 4 codes from 4 * half on.
  __device__ void transpose(int half, int part, unsigned (&result)[4]) const {
    const unsigned a = word(4 * part, half), b = word(4 * part + 1, half);
    const unsigned c = word(4 * part + 2, half), d = word(4 * part + 3, half);
    const unsigned ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
    const unsigned cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
    result[0] = __byte_perm(ab_low, cd_low, 0x5410);
    result[1] = __byte_perm(ab_low, cd_low, 0x7632);
    result[2] = __byte_perm(ab_high, cd_high, 0x5410);
    result[3] = __byte_perm(ab_high, cd_high, 0x7632);
  }
};

// `divisor_of` returns the Divisor of a row and a column of the patch.
template <class T, Element kElement, class DivisorOf>
__device__ CodePatch codes_of(const Patch<T>& patch, int64_t rows_left, DivisorOf divisor_of) {
  CodePatch codes;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    unsigned pairs[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const Packed<T>& vector = patch.vectors[i][2 * k / kVectorWidth<T>];
      const int first = 2 * k % kVectorWidth<T>;
      pairs[k] = codes_of_two<kElement>(divisor_of(i, 2 * k).quotient(vector.at(first)),
                                        divisor_of(i, 2 * k + 1).quotient(vector.at(first + 1)));
    }
    // A scale of NaN would make the codes below the matrix NaN.
    const bool inside = i < rows_left;
    codes.lines[i].x = inside ? pairs[0] | pairs[1] << 16 : 0;
    codes.lines[i].y = inside ? pairs[2] | pairs[3] << 16 : 0;
  }
  return codes;
}

__device__ inline void store_rows(const CodePatch& codes, const Fp8Cast& cast, int64_t row, int64_t column) {
  if (column >= cast.columns) return;
  uint8_t* first = cast.row_codes + row * cast.columns + column;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    if (row + i < cast.rows) *reinterpret_cast<uint2*>(first + i * cast.columns) = codes.lines[i];
  }
}

// A column of the tile has 128 bytes of shared memory, and its chunks of 16 rows are in an order that depends on the
// column: half a warp stores 8 bytes a thread to all banks, and 8 threads load 16 bytes each from all banks.
__device__ inline int place_of_chunk(int column, int chunk) {
  return (column * kChunksInColumn + (chunk ^ column / kPatch % kChunksInColumn)) * kChunk;
}

// Called by all threads of the block.
__device__ inline void store_columns(const CodePatch& codes, const Fp8Cast& cast, const Place& place,
                                     const Tile& tile) {
  __shared__ alignas(16) uint8_t shared[kTile * kTile];
  const CodePatch columns = codes.transposed();
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    uint8_t* chunk = shared + place_of_chunk(place.column + k, place.row / kChunk);
    *reinterpret_cast<uint2*>(chunk + place.row % kChunk) = columns.lines[k];
  }
  __syncthreads();
  const int chunk = threadIdx.x % kChunksInColumn;
  const int64_t row = tile.row + chunk * kChunk;
  if (row >= cast.padded_rows) return;
#pragma unroll
  for (int i = 0; i < kTile * kChunksInColumn / kThreads; ++i) {
    const int column = threadIdx.x / kChunksInColumn + i * (kThreads / kChunksInColumn);
    if (tile.column + column >= cast.columns) return;
    *reinterpret_cast<uint4*>(cast.column_codes + (tile.column + column) * cast.padded_rows + row) =
        *reinterpret_cast<const uint4*>(shared + place_of_chunk(column, chunk));
  }
}

// Calls visit with the tiles of the matrix and those in one row of them.
template <class Visit>
cudaError_t visit_tiles(const Fp8Cast& cast, Visit visit) {
  const int64_t tiles_in_row = ceil_divide<int64_t>(cast.columns, kTile);
  const int64_t tiles = tiles_in_row * ceil_divide<int64_t>(cast.rows, kTile);
  if (tiles > std::numeric_limits<int>::max()) return cudaErrorInvalidConfiguration;
  return visit(static_cast<unsigned>(tiles), static_cast<unsigned>(tiles_in_row));
}

}  // namespace strata::kernels
