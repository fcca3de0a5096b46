// SPDX-License-Identifier: MIT
// dropout. The mask is recomputed by hashing wherever it is needed.
#include <algorithm>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/dropout/dropout_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256;
// Rows per thread. A thread keeps the hashes of its columns for these rows, which saves half of the hash, and the loads
// of these rows overlap. 65536 x 768: 3.7 TB/s, with 4 rows 3.1.
constexpr int kRowsAtOnce = 8;
constexpr unsigned kGolden = 0x9e3779b9u;

__device__ unsigned mix(unsigned hash) {
  hash ^= hash >> 16;
  hash *= 0x7feb352du;
  hash ^= hash >> 15;
  hash *= 0x846ca68bu;
  return hash ^ hash >> 16;
}

__device__ unsigned low(int64_t number) { return static_cast<unsigned>(number); }
__device__ unsigned high(int64_t number) { return static_cast<unsigned>(static_cast<uint64_t>(number) >> 32); }

__device__ unsigned hash_site(const DropoutArguments& a) {
  const int64_t key = *a.key;
  return mix(low(a.site) ^ mix(high(key) ^ mix(low(key) ^ kGolden)));
}

__device__ unsigned hash_row(int64_t row, unsigned site_hash) { return mix(high(row) ^ mix(low(row) ^ site_hash)); }
__device__ unsigned hash_column(int64_t column) { return mix(low(column) + kGolden); }

struct Rule {
  unsigned threshold;  // elements with a lower hash are dropped
  float scale;         // 1 / (1 - p)
};

__device__ float with_dropout(float x, unsigned row_hash, unsigned column_hash, const Rule& rule) {
  return mix(row_hash ^ column_hash) < rule.threshold ? 0.0f : x * rule.scale;
}

// blockIdx.x is a part of the columns, blockIdx.y a group of kRowsAtOnce rows.
template <class T>
__global__ void __launch_bounds__(kThreads) dropout_kernel(const DropoutArguments a, const Rule rule) {
  constexpr int N = kVectorWidth<T>;
  const int64_t vectors_in_row = a.columns / N, i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors_in_row) return;
  const unsigned site_hash = hash_site(a);
  unsigned column_hash[N];
#pragma unroll
  for (int k = 0; k < N; ++k) column_hash[k] = hash_column(i * N + k);
  for (int64_t start = static_cast<int64_t>(blockIdx.y) * kRowsAtOnce; start < a.rows;
       start += static_cast<int64_t>(gridDim.y) * kRowsAtOnce) {
    Packed<T> x[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (start + r >= a.rows) continue;
      x[r].words = __ldcs(static_cast<const uint4*>(a.x) + (start + r) * vectors_in_row + i);
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (start + r >= a.rows) continue;
      const unsigned row_hash = hash_row(a.first_row + start + r, site_hash);
      x[r].fill([&](int k) { return with_dropout(x[r].at(k), row_hash, column_hash[k], rule); });
      __stcs(static_cast<uint4*>(a.y) + (start + r) * vectors_in_row + i, x[r].words);
    }
  }
}

// This kernel supports any number of columns and any alignment.
template <class T>
__global__ void __launch_bounds__(kThreads) dropout_any_kernel(const DropoutArguments a, const Rule rule) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= a.columns) return;
  const unsigned site_hash = hash_site(a), column_hash = hash_column(column);
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const int64_t i = row * a.columns + column;
    const float y = with_dropout(to_float(static_cast<const T*>(a.x)[i]), hash_row(a.first_row + row, site_hash),
                                 column_hash, rule);
    static_cast<T*>(a.y)[i] = from_float<T>(y);
  }
}

}  // namespace

cudaError_t launch_dropout(const DropoutArguments& a, cudaStream_t stream) {
  if (a.rows == 0 || a.columns == 0) return cudaSuccess;
  const Rule rule = {static_cast<unsigned>(static_cast<int64_t>(a.probability * 4294967296.0)),
                     static_cast<float>(1.0 / (1.0 - a.probability))};
  return visit_type(a.type, [&]<class T>(T) {
    constexpr int64_t kMaxBlocksAlongY = 65535;
    const bool whole = a.columns % kVectorWidth<T> == 0 && are_aligned(a.y, a.x);
    const int64_t items = whole ? a.columns / kVectorWidth<T> : a.columns;
    const int64_t pieces = ceil_divide<int64_t>(items, kThreads);
    const int threads = static_cast<int>(ceil_divide<int64_t>(items, pieces * kWarp)) * kWarp;
    const int64_t rows_at_once = whole ? kRowsAtOnce : 1;
    const int64_t along_y = std::min(ceil_divide<int64_t>(a.rows, rows_at_once), kMaxBlocksAlongY);
    const dim3 blocks(static_cast<unsigned>(pieces), static_cast<unsigned>(along_y));
    if (whole) {
      dropout_kernel<T><<<blocks, threads, 0, stream>>>(a, rule);
    } else {
      dropout_any_kernel<T><<<blocks, threads, 0, stream>>>(a, rule);
    }
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
