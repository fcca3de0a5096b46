// SPDX-License-Identifier: MIT
// Chooses the kernel of few_rows.cuh for the sizes of a call.
#include "kernels/linear/few_rows.cuh"

namespace strata::kernels {
namespace {

// More rows of x need more registers, so fewer vectors are loaded at once. A long row of the matrix is shared by warps,
// so that there are enough warps to read it.
template <class T, int kRows, bool kGated>
cudaError_t launch_for(const FewRows& a, cudaStream_t stream) {
  constexpr int kMatrixRows = kGated ? 2 : 1, kAhead = kRows == 1 ? 8 : 4;
  const bool is_long = a.inputs > kAhead * kWarp * kVectorWidth<T>;
  return is_long ? launch_few_rows_kernel<T, FewRowsPlan<kMatrixRows, 4, kAhead>, kRows, kGated>(a, stream)
                 : launch_few_rows_kernel<T, FewRowsPlan<kMatrixRows, 1, kAhead>, kRows, kGated>(a, stream);
}

template <class T, int kRows>
cudaError_t launch_rows(const FewRows& a, cudaStream_t stream) {
  return a.gated ? launch_for<T, kRows, true>(a, stream) : launch_for<T, kRows, false>(a, stream);
}

}  // namespace

cudaError_t launch_few_rows(const FewRows& a, cudaStream_t stream) {
  if (a.rows == 0 || a.outputs == 0) return cudaSuccess;
  if (a.rows > kFewRows) return cudaErrorInvalidValue;
  return visit_type(a.type, [&]<class T>(T) {
    if (a.rows == 1) return launch_rows<T, 1>(a, stream);
    if (a.rows == 2) return launch_rows<T, 2>(a, stream);
    return a.rows <= 4 ? launch_rows<T, 4>(a, stream) : launch_rows<T, 8>(a, stream);
  });
}

}  // namespace strata::kernels
