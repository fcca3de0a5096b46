// SPDX-License-Identifier: MIT
// GemmCall: the arguments of one product for cuBLASLt, and for the kernel of gelu_gemm.h if it supports the product.
// cuBLASLt matrices are column-major and LibTorch matrices row-major. A row-major out [M, N] is its transpose in
// column-major order, so cuBLASLt is asked for out^T = b^T a^T.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/cuda/gelu_gemm.h"
#include "kernels/cuda/gemm.h"

namespace strata::kernels {

constexpr int64_t kMostWorkspace = int64_t{32} << 20;  // bytes; cuBLASLt's recommendation for Hopper

// The layout of a row-major matrix in memory.
struct MatrixLayout {
  int64_t rows, columns, distance;  // elements from one row to the next
  bool transposed;                  // memory holds the transpose of the matrix
};

// Returns nullopt if neither the rows nor the columns of the matrix have neighboring elements.
std::optional<MatrixLayout> find_layout(const at::Tensor& matrix);

// What a scale belongs to: a matrix, also where there are no scales; a row of a or a column of b; or a block of these.
// N is a multiple of 16 with operands of 8 bits, so a single fp32 b_scale belongs to the matrix.
inline cublasLtMatmulMatrixScale_t scale_mode(const Gemm& gemm) {
  if (!gemm.b_scale.defined()) return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (gemm.b_scale.scalar_type() == at::kFloat8_e8m0fnu) return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  if (gemm.b_scale.scalar_type() == at::kFloat8_e4m3fn) return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  return gemm.b_scale.numel() > 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                                  : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

// The number of elements in each of a tensor of this type.
inline int64_t packed_elements(at::ScalarType type) { return type == at::kFloat4_e2m1fn_x2 ? 2 : 1; }

// The number of scales of a matrix of `lines` rows or columns, each of `summed` elements.
int64_t scale_count(cublasLtMatmulMatrixScale_t mode, int64_t lines, int64_t summed);

// The implementation for a kind of call: an algorithm of cuBLASLt, or the kernel of gelu_gemm.cu if empty.
using GemmChoice = std::optional<cublasLtMatmulHeuristicResult_t>;

// Lives on the stack: it refers to `op` and `gemm`. Errors begin with `op`.
class GemmCall {
 public:
  // Everything on which the choice depends.
  using Key = std::array<int64_t, 23>;

  GemmCall(std::string_view op, const Gemm& gemm);

  const Gemm& gemm() const { return gemm_; }
  std::string_view op() const { return op_; }
  Key key(bool deterministic) const;

  // Returns all implementations that support the call, best guess first: those that cuBLASLt proposes, and our kernel.
  std::vector<GemmChoice> candidates();
  // Returns the algorithms with the tiles of gemm_tiles.h that support the call and that cuBLASLt does not propose.
  std::vector<GemmChoice> other_candidates();

  // Launches the product with another `b`, `out` and `add` than those of the call. The kernel of gelu_gemm.cu ignores
  // all three: it always writes the call's `out` and never adds.
  cublasStatus_t launch(const GemmChoice& choice, const void* b, void* out, bool add);
  cublasStatus_t launch(const GemmChoice& choice, void* out, bool add) {
    return launch(choice, gemm_.b.const_data_ptr(), out, add);
  }
  // Launches the product and throws a c10::Error if that fails.
  void launch(const GemmChoice& choice);

 private:
  std::vector<cublasLtMatmulHeuristicResult_t> proposed_algorithms();
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t name, Value value);
  void check(cublasStatus_t status) const;

  std::string_view op_;
  const Gemm& gemm_;
  MatrixLayout a_, b_, out_;
  at::Tensor tensor_scales_;  // fp32 [1], the product of both; undefined: 1
  std::optional<GeluGemm> gelu_gemm_;
  cublasComputeType_t compute_;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_layout_{}, b_layout_{}, out_layout_{};
};

}  // namespace strata::kernels
