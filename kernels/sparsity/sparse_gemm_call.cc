// SPDX-License-Identifier: MIT
#include "kernels/sparsity/sparse_gemm_call.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <map>
#include <string>

#include "kernels/cuda/gemm_call.h"

namespace strata::kernels {
namespace {

constexpr uint32_t kAlignment = 16;  // bytes of all pointers

cudaDataType_t data_type(at::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kBFloat16 || type == at::kHalf, "sparse_gemm: a matrix is ", type,
                    ", expected BFloat16 or Half");
  return type == at::kBFloat16 ? CUDA_R_16BF : CUDA_R_16F;
}

}  // namespace

const cusparseLtHandle_t* sparse_library(std::string_view op) {
  // The forward and the backward run in threads of their own, and the library does not say that threads may share one.
  thread_local std::map<c10::DeviceIndex, std::unique_ptr<cusparseLtHandle_t>> contexts;
  std::unique_ptr<cusparseLtHandle_t>& context = contexts[c10::cuda::current_device()];
  if (context == nullptr) {
    auto made = std::make_unique<cusparseLtHandle_t>();
    check_sparse(op, cusparseLtInit(made.get()), "this GPU");
    context = std::move(made);
  }
  return context.get();
}

void check_sparse(std::string_view op, cusparseStatus_t status, std::string_view what) {
  TORCH_CHECK(status == CUSPARSE_STATUS_SUCCESS, op, "/cuda: cuSPARSELt failed on ", what, ": ",
              cusparseLtGetErrorString(status));
}

SparseGemmMatrix::SparseGemmMatrix(std::string_view op, at::ScalarType type, const Sizes& sizes, cusparseOrder_t order,
                                   bool structured) {
  const cusparseLtHandle_t* library = sparse_library(op);
  const auto& [rows, columns, distance] = sizes;
  const cusparseStatus_t status =
      structured ? cusparseLtStructuredDescriptorInit(library, &descriptor_, rows, columns, distance, kAlignment,
                                                      data_type(type), order, CUSPARSELT_SPARSITY_50_PERCENT)
                 : cusparseLtDenseDescriptorInit(library, &descriptor_, rows, columns, distance, kAlignment,
                                                 data_type(type), order);
  check_sparse(op, status, "a matrix of " + std::to_string(rows) + " x " + std::to_string(columns));
}

SparseGemmMatrix weight_matrix(std::string_view op, const CompressedWeight& weight) {
  const auto& [bytes, outputs, inputs, type, is_transpose] = weight;
  const int64_t rows = is_transpose ? inputs : outputs, columns = is_transpose ? outputs : inputs;
  return SparseGemmMatrix(op, type, {rows, columns, columns}, CUSPARSE_ORDER_ROW, /*structured=*/true);
}

SparseGemmAlgorithm::SparseGemmAlgorithm(std::string_view op, const cusparseLtHandle_t* library,
                                         const cusparseLtMatmulDescriptor_t* operation)
    : library_(library) {
  check_sparse(op, cusparseLtMatmulAlgSelectionInit(library, &selection_, operation, CUSPARSELT_MATMUL_ALG_DEFAULT),
               "an algorithm");
}

cusparseStatus_t SparseGemmAlgorithm::set(cusparseLtMatmulAlgAttribute_t name, int value) {
  return cusparseLtMatmulAlgSetAttribute(library_, &selection_, name, &value, sizeof(value));
}

int SparseGemmAlgorithm::count() const {
  int limit = 0;
  const cusparseStatus_t status = cusparseLtMatmulAlgGetAttribute(
      library_, &selection_, CUSPARSELT_MATMUL_ALG_CONFIG_MAX_ID, &limit, sizeof(limit));
  return status == CUSPARSE_STATUS_SUCCESS ? limit : 0;
}

SparseGemmCall::SparseGemmCall(std::string_view op, const Operands& operands)
    : op_(op),
      operands_(operands),
      library_(sparse_library(op)),
      weight_(weight_matrix(op, operands.weight)),
      x_(op, operands.x.scalar_type(), {operands.x.size(0), operands.x.size(1), operands.x.stride(0)},
         CUSPARSE_ORDER_ROW, /*structured=*/false),
      out_(op, operands.out.scalar_type(), {operands.out.size(1), operands.out.size(0), operands.out.size(1)},
           CUSPARSE_ORDER_COL, /*structured=*/false) {
  check(cusparseLtMatmulDescriptorInit(library_, &operation_, weight_operation(operands.weight),
                                       CUSPARSE_OPERATION_TRANSPOSE, weight_.get(), x_.get(), out_.get(), out_.get(),
                                       CUSPARSE_COMPUTE_32F));
  if (!operands.bias.defined()) return;
  const void* bias = operands.bias.const_data_ptr();
  check(cusparseLtMatmulDescSetAttribute(library_, &operation_, CUSPARSELT_MATMUL_BIAS_POINTER, &bias, sizeof(bias)));
}

SparseGemmCall::Key SparseGemmCall::key(bool deterministic) const {
  const auto& [x, weight, bias, out] = operands_;
  return {out.get_device(),   out.size(0),    out.size(1),   x.size(1),
          x.stride(0),        bias.defined(), deterministic, static_cast<int64_t>(weight.type),
          weight.is_transpose};
}

int SparseGemmCall::algorithm_count() const { return SparseGemmAlgorithm(op_, library_, &operation_).count(); }

std::unique_ptr<SparseGemmCall::Plan> SparseGemmCall::plan(std::optional<int> algorithm) const {
  std::unique_ptr<Plan> made(new Plan(*this));
  SparseGemmAlgorithm& selected = made->algorithm_;
  // Partial sums would be added in an order that may vary.
  const bool is_set =
      selected.set(CUSPARSELT_MATMUL_SPLIT_K, 1) == CUSPARSE_STATUS_SUCCESS &&
      (!algorithm || selected.set(CUSPARSELT_MATMUL_ALG_CONFIG_ID, *algorithm) == CUSPARSE_STATUS_SUCCESS);
  cusparseStatus_t status = is_set ? cusparseLtMatmulPlanInit(library_, &made->plan_, &operation_, selected.get())
                                   : CUSPARSE_STATUS_NOT_SUPPORTED;
  made->is_made_ = status == CUSPARSE_STATUS_SUCCESS;
  if (made->is_made_) {
    status = cusparseLtMatmulGetWorkspace(library_, &made->plan_, &made->workspace_);
  }
  if (!algorithm) check(status);
  const bool is_small = made->workspace_ <= static_cast<size_t>(kMostWorkspace);
  return status == CUSPARSE_STATUS_SUCCESS && (!algorithm || is_small) ? std::move(made) : nullptr;
}

SparseGemmCall::Plan::~Plan() {
  if (is_made_) cusparseLtMatmulPlanDestroy(&plan_);
}

cusparseStatus_t SparseGemmCall::Plan::launch() const {
  const auto& [x, weight, bias, out] = call_.operands_;
  const float one = 1.0f, zero = 0.0f;
  c10::DataPtr workspace;  // returned to the allocator in stream order
  if (workspace_ > 0) workspace = c10::cuda::CUDACachingAllocator::get()->allocate(workspace_);
  cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  void* result = out.mutable_data_ptr();
  return cusparseLtMatmul(call_.library_, &plan_, &one, weight.bytes.const_data_ptr(), x.const_data_ptr(), &zero,
                          result, result, workspace.get(), &stream, /*numStreams=*/1);
}

void SparseGemmCall::check(cusparseStatus_t status) const {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const auto& [x, weight, bias, out] = operands_;
  check_sparse(op_, status,
               "x [" + std::to_string(x.size(0)) + ", " + std::to_string(x.size(1)) + "] and a weight [" +
                   std::to_string(weight.outputs) + ", " + std::to_string(weight.inputs) + "]");
}

}  // namespace strata::kernels
