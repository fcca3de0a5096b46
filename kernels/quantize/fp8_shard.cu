// SPDX-License-Identifier: MIT
// Codes of a part of a weight whose scale is known, and the transpose of codes. Both are bound by memory: a thread of
// the first kernel makes 16 codes, and the second one moves tiles as fp8_operand does.
#include <limits>

#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/quantize/fp8_codes.cuh"
#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    weight_codes_kernel(const T* x, const float* scale, uint8_t* codes, int64_t count) {
  wait_for_kernel_before();
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kChunk;
  if (first >= count) return;
  const Divisor divisor(__ldcg(scale));
  if (count - first < kChunk) {
    for (int64_t i = first; i < count; ++i) {
      codes[i] = static_cast<uint8_t>(codes_of_two<Element::e4m3>(divisor.quotient(to_float(x[i])), 0));
    }
    return;
  }
  constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kChunk / kWidth];
#pragma unroll
  for (int i = 0; i < kChunk / kWidth; ++i) vectors[i].words = reinterpret_cast<const uint4*>(x + first)[i];
  unsigned words[kChunk / 4];
#pragma unroll
  for (int i = 0; i < kChunk / 4; ++i) {
    unsigned pairs[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int k = 4 * i + 2 * j;
      const Packed<T>& vector = vectors[k / kWidth];
      pairs[j] = codes_of_two<Element::e4m3>(divisor.quotient(vector.at(k % kWidth)),
                                             divisor.quotient(vector.at(k % kWidth + 1)));
    }
    words[i] = pairs[0] | pairs[1] << 16;
  }
  *reinterpret_cast<uint4*>(codes + first) = {words[0], words[1], words[2], words[3]};
}

// One block for each tile of cast.row_codes, which are read here.
__global__ void __launch_bounds__(kThreads) transpose_kernel(Fp8Cast cast, unsigned tiles_in_row) {
  wait_for_kernel_before();
  const Place place;
  const Tile tile(blockIdx.x, tiles_in_row);
  const int64_t row = tile.row + place.row, column = tile.column + place.column;
  const uint8_t* const first = cast.row_codes + row * cast.columns + column;
  CodePatch codes;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const bool inside = row + i < cast.rows && column < cast.columns;
    codes.lines[i] = inside ? __ldcs(reinterpret_cast<const uint2*>(first + i * cast.columns)) : uint2{};
  }
  store_columns(codes, cast, place, tile);
}

}  // namespace

cudaError_t launch_weight_codes(CudaType type, const void* x, const float* scale, uint8_t* codes, int64_t count,
                                cudaStream_t stream) {
  const int64_t blocks = ceil_divide<int64_t>(count, int64_t{kThreads} * kChunk);
  if (blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidConfiguration;
  return visit_type(type, [&]<class T>(T) {
    return launch_overlapped(weight_codes_kernel<T>, static_cast<unsigned>(blocks), kThreads, 0, stream,
                             static_cast<const T*>(x), scale, codes, count);
  });
}

cudaError_t launch_transpose_codes(const uint8_t* codes, uint8_t* transposed, int64_t rows, int64_t columns,
                                   cudaStream_t stream) {
  Fp8Cast cast = {};
  cast.rows = cast.padded_rows = rows;
  cast.columns = columns;
  cast.row_codes = const_cast<uint8_t*>(codes);
  cast.column_codes = transposed;
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    return launch_overlapped(transpose_kernel, tiles, kThreads, 0, stream, cast, tiles_in_row);
  });
}

}  // namespace strata::kernels
