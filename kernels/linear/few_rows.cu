// SPDX-License-Identifier: MIT
// Chooses the kernel for the type and the sizes of a call: the one in few_rows_mma.cuh if uses_tensor_cores(),
// otherwise the one in few_rows.cuh.
#include "kernels/cuda/multiprocessors.h"
#include "kernels/linear/few_rows.cuh"
#include "kernels/linear/few_rows_mma.cuh"

namespace strata::kernels {
namespace {

constexpr int64_t kLongRow = 4096;

// With the first plan a block has 16 rows of the matrix. If there are too few blocks to load from all multiprocessors,
// warps share rows. Llama 1B in bf16 on an H200, microseconds of a product:
//   rows of x, matrix    1, 3072x2048  2, 3072x2048  1, 2048x2048  2, 2048x2048  1, 2048x8192  4, 2048x8192
//   <2, 1, 4>            4.05          4.37          -             -             -             -
//   <2, 2, 4>            3.75          -             2.64          3.31          -             10.77
//   <4, 4, 2>            4.30          -             2.84          3.21          8.58          10.03
//   <4, 8, 1>            -             4.69          2.98          -             8.44          -
// The gated product 8192x2048 takes 15.81 us for 1 row, and the head 128256x2048 takes 116.
template <class T, int kRows, bool kGated, bool kNormed>
cudaError_t launch_for(const FewRows& a, cudaStream_t stream) {
  const int64_t blocks = (kRows == 1 ? 2 : 1) * int64_t{multiprocessors()};
  if ((kGated ? 2 : 1) * a.outputs > 16 * blocks) {
    return launch_few_rows_kernel<T, FewRowsPlan<2, 1, 4>, kRows, kGated, kNormed>(a, stream);
  }
  if constexpr (kRows == 1) {
    return a.inputs > kLongRow ? launch_few_rows_kernel<T, FewRowsPlan<4, 8, 1>, kRows, kGated, kNormed>(a, stream)
                               : launch_few_rows_kernel<T, FewRowsPlan<2, 2, 4>, kRows, kGated, kNormed>(a, stream);
  } else {
    return launch_few_rows_kernel<T, FewRowsPlan<4, 4, 2>, kRows, kGated, kNormed>(a, stream);
  }
}

// Up to 2 rows are faster without tensor cores, and so are 3 and 4 long rows of 2048 outputs. Long rows of more outputs
// were not measured.
bool uses_tensor_cores(const FewRows& a) {
  return a.type != CudaType::float32 && a.rows > 2 && (a.rows > 4 || a.inputs <= kLongRow);
}

// Many outputs give each block several tiles, and smaller rounds of loads then leave room for a third block.
template <class T, int kRows, bool kGated, bool kNormed>
cudaError_t launch_mma(const FewRows& a, cudaStream_t stream) {
  if ((kGated ? 2 : 1) * a.outputs > 32 * multiprocessors()) {
    return launch_few_rows_mma<T, MmaPlan<8, 2, 3>, kRows, kGated, kNormed>(a, stream);
  }
  return launch_few_rows_mma<T, MmaPlan<8, 4, 2>, kRows, kGated, kNormed>(a, stream);
}

template <class T, int kRows, bool kNormed>
cudaError_t launch_mma_rows(const FewRows& a, cudaStream_t stream) {
  return a.gated ? launch_mma<T, kRows, true, kNormed>(a, stream) : launch_mma<T, kRows, false, kNormed>(a, stream);
}

template <class T, int kRows>
cudaError_t launch_rows(const FewRows& a, cudaStream_t stream) {
  if (a.norm_weight == nullptr) {
    return a.gated ? launch_for<T, kRows, true, false>(a, stream) : launch_for<T, kRows, false, false>(a, stream);
  }
  if constexpr (kRows <= 4) {
    return a.gated ? launch_for<T, kRows, true, true>(a, stream) : launch_for<T, kRows, false, true>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_few_rows(const FewRows& a, cudaStream_t stream) {
  if (a.rows == 0 || a.outputs == 0) return cudaSuccess;
  if (a.rows > kFewRows) return cudaErrorInvalidValue;
  return visit_type(a.type, [&]<class T>(T) {
    const bool normed = a.norm_weight != nullptr;
    if (normed && !are_few_normed_rows(a.type, a.rows, a.inputs)) return cudaErrorInvalidValue;
    if constexpr (sizeof(T) == 2) {
      if (uses_tensor_cores(a)) {
        if (!normed) return launch_mma_rows<T, kMostMmaRows, false>(a, stream);
        return a.rows <= 4 ? launch_mma_rows<T, 4, true>(a, stream) : launch_mma_rows<T, kMostMmaRows, true>(a, stream);
      }
    }
    if (a.rows == 1) return launch_rows<T, 1>(a, stream);
    if (a.rows == 2) return launch_rows<T, 2>(a, stream);
    if (a.rows <= 4) return launch_rows<T, 4>(a, stream);
    if constexpr (sizeof(T) == 4) return launch_rows<T, 8>(a, stream);
    return cudaErrorInvalidValue;
  });
}

}  // namespace strata::kernels
