// SPDX-License-Identifier: MIT
// SparseGemmCall: the arguments of one product for cuSPARSELt, whose sparse matrix comes first. So it is asked for
// out^T = weight x^T: the weight [N, K] and x [M, K] are row-major, and the result [N, M] is column-major, which is out
// [M, N] in rows.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <cusparseLt.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kernels/sparsity/sparse_gemm.h"

namespace strata::kernels {

// The library context of this thread on the current GPU. It lives as long as the thread.
const cusparseLtHandle_t* sparse_library(std::string_view op);

// Throws a c10::Error with the words of the library and of `what`, unless the status is success.
void check_sparse(std::string_view op, cusparseStatus_t status, std::string_view what);

// A descriptor of a matrix.
class SparseGemmMatrix {
 public:
  struct Sizes {
    int64_t rows, columns, distance;  // elements from one row to the next, or from one column to the next
  };
  // Structured: with 2:4 zeros in its rows.
  SparseGemmMatrix(std::string_view op, at::ScalarType type, const Sizes& sizes, cusparseOrder_t order,
                   bool structured);
  ~SparseGemmMatrix() { cusparseLtMatDescriptorDestroy(&descriptor_); }
  SparseGemmMatrix(const SparseGemmMatrix&) = delete;
  SparseGemmMatrix& operator=(const SparseGemmMatrix&) = delete;

  const cusparseLtMatDescriptor_t* get() const { return &descriptor_; }

 private:
  cusparseLtMatDescriptor_t descriptor_{};
};

// The descriptor of a weight as it was before it was compressed, and what makes [N, K] of it.
SparseGemmMatrix weight_matrix(std::string_view op, const CompressedWeight& weight);
inline cusparseOperation_t weight_operation(const CompressedWeight& weight) {
  return weight.is_transpose ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
}

// An algorithm of the library for an operation.
class SparseGemmAlgorithm {
 public:
  SparseGemmAlgorithm(std::string_view op, const cusparseLtHandle_t* library,
                      const cusparseLtMatmulDescriptor_t* operation);
  ~SparseGemmAlgorithm() { cusparseLtMatmulAlgSelectionDestroy(&selection_); }
  SparseGemmAlgorithm(const SparseGemmAlgorithm&) = delete;
  SparseGemmAlgorithm& operator=(const SparseGemmAlgorithm&) = delete;

  cusparseStatus_t set(cusparseLtMatmulAlgAttribute_t name, int value);
  int count() const;  // of the algorithms that the library knows for the operation
  const cusparseLtMatmulAlgSelection_t* get() const { return &selection_; }

 private:
  const cusparseLtHandle_t* library_;
  cusparseLtMatmulAlgSelection_t selection_{};
};

// Lives on the stack: it refers to its arguments. M is a multiple of eight.
class SparseGemmCall {
 public:
  // Everything on which the choice of an algorithm depends.
  using Key = std::array<int64_t, 9>;
  struct Operands {
    const at::Tensor& x;
    const CompressedWeight& weight;
    const at::Tensor &bias, &out;
  };

  SparseGemmCall(std::string_view op, const Operands& operands);

  Key key(bool deterministic) const;
  std::string_view op() const { return op_; }
  // The algorithms have the numbers from 0 to this one, without it.
  int algorithm_count() const;

  // A product by one algorithm.
  class Plan {
   public:
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    cusparseStatus_t launch() const;

   private:
    friend class SparseGemmCall;
    explicit Plan(const SparseGemmCall& call) : call_(call), algorithm_(call.op_, call.library_, &call.operation_) {}
    const SparseGemmCall& call_;
    SparseGemmAlgorithm algorithm_;  // the library's plan refers to it
    cusparseLtMatmulPlan_t plan_{};
    bool is_made_ = false;
    size_t workspace_ = 0;  // bytes
  };
  // Returns null if the algorithm does not support the call, or takes more than kMostWorkspace bytes. Without a number
  // it is the algorithm that the library proposes, whatever it takes, and the call throws a c10::Error instead.
  std::unique_ptr<Plan> plan(std::optional<int> algorithm) const;

 private:
  void check(cusparseStatus_t status) const;

  std::string_view op_;
  const Operands operands_;
  const cusparseLtHandle_t* library_;
  SparseGemmMatrix weight_, x_, out_;
  cusparseLtMatmulDescriptor_t operation_{};
};

}  // namespace strata::kernels
