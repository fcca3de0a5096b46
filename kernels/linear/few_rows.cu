// SPDX-License-Identifier: MIT
// Chooses the kernel for the type and the sizes of a call: few_rows_ring.cuh for 16-bit types, few_rows.cuh for fp32.
#include "kernels/linear/few_rows.cuh"
#include "kernels/linear/few_rows_ring.cuh"

namespace strata::kernels {
namespace {

// With the first plan a block has 16 rows of the matrix. If there are too few blocks to load from all multiprocessors,
// warps share rows.
template <int kRows, bool kGated, bool kNormed>
cudaError_t launch_floats(const FewRows& a, cudaStream_t stream) {
  constexpr int64_t kBlocks = (kRows == 1 ? 2 : 1) * int64_t{kMultiprocessors}, kLongRow = 4096;
  if ((kGated ? 2 : 1) * a.outputs > 16 * kBlocks) {
    return launch_few_rows_kernel<FewRowsPlan<2, 1, 4>, kRows, kGated, kNormed>(a, stream);
  }
  if constexpr (kRows == 1) {
    return a.inputs > kLongRow ? launch_few_rows_kernel<FewRowsPlan<4, 8, 1>, kRows, kGated, kNormed>(a, stream)
                               : launch_few_rows_kernel<FewRowsPlan<2, 2, 4>, kRows, kGated, kNormed>(a, stream);
  } else {
    return launch_few_rows_kernel<FewRowsPlan<4, 4, 2>, kRows, kGated, kNormed>(a, stream);
  }
}

template <class T, int kRows, bool kGated, bool kNormed>
cudaError_t launch_halves(const FewRows& a, cudaStream_t stream) {
  return launch_few_rows_ring<T, RingPlan<2, 1, 6>, kRows, kGated, kNormed>(a, stream);
}

template <class T, int kRows, bool kNormed>
cudaError_t launch_rows(const FewRows& a, cudaStream_t stream) {
  if constexpr (sizeof(T) == 4) {
    return a.gated ? launch_floats<kRows, true, kNormed>(a, stream) : launch_floats<kRows, false, kNormed>(a, stream);
  } else {
    return a.gated ? launch_halves<T, kRows, true, kNormed>(a, stream)
                   : launch_halves<T, kRows, false, kNormed>(a, stream);
  }
}

}  // namespace

cudaError_t launch_few_rows(const FewRows& a, cudaStream_t stream) {
  if (a.rows == 0 || a.outputs == 0) return cudaSuccess;
  if (a.rows > most_few_rows(a.type)) return cudaErrorInvalidValue;
  return visit_type(a.type, [&]<class T>(T) {
    constexpr bool kIsFloat = sizeof(T) == 4;
    if (a.norm_weight == nullptr) {
      // Registers of fp32 hold the sums of each row. On tensor cores 8 rows take as long as 1.
      if constexpr (kIsFloat) {
        if (a.rows == 1) return launch_rows<T, 1, false>(a, stream);
        if (a.rows == 2) return launch_rows<T, 2, false>(a, stream);
        if (a.rows <= 4) return launch_rows<T, 4, false>(a, stream);
      }
      if constexpr (!kIsFloat) {
        if (a.rows > 8) return launch_rows<T, 16, false>(a, stream);
      }
      return launch_rows<T, 8, false>(a, stream);
    }
    if (!are_few_normed_rows(a.type, a.rows, a.inputs)) return cudaErrorInvalidValue;
    if (a.rows == 1) return launch_rows<T, 1, true>(a, stream);
    if (a.rows == 2) return launch_rows<T, 2, true>(a, stream);
    if constexpr (!kIsFloat) {
      if (a.rows > 8) return launch_rows<T, 16, true>(a, stream);
      if (a.rows > 4) return launch_rows<T, 8, true>(a, stream);
    }
    return launch_rows<T, 4, true>(a, stream);
  });
}

}  // namespace strata::kernels
