// SPDX-License-Identifier: MIT
#include "kernels/sparsity/sparse_gemm.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/cuda/fastest_launch.h"
#include "kernels/runtime/call.h"
#include "kernels/sparsity/sparse_gemm_call.h"
#include "kernels/sparsity/sparse_products.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRows = 8;  // cuSPARSELt takes x if its number of rows is a multiple of this

// Half of the elements of 2 bytes, and a bit for each element.
int64_t compressed_bytes(int64_t outputs, int64_t inputs) { return outputs * inputs * 9 / 8; }

// Returns the algorithm for this kind of call, chosen at its first call. Nothing: the one that the library proposes.
std::optional<int> algorithm_for(const SparseGemmCall& call) {
  static std::mutex mutex;
  static auto* known = new std::map<SparseGemmCall::Key, std::optional<int>>;
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  const SparseGemmCall::Key key = call.key(deterministic);
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  std::optional<int>& chosen = (*known)[key];
  const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  if (capturing || deterministic) return chosen;
  std::vector<std::optional<int>> numbers;
  std::vector<std::unique_ptr<SparseGemmCall::Plan>> plans;
  for (int number = 0, count = call.algorithm_count(); number < count; ++number) {
    if (auto plan = call.plan(number)) {
      numbers.emplace_back(number);
      plans.push_back(std::move(plan));
    }
  }
  if (plans.empty()) return chosen;
  const auto launch = [&](size_t index) { return plans[index]->launch() == CUSPARSE_STATUS_SUCCESS; };
  return chosen = numbers[fastest_launch(call.op(), plans.size(), launch)];
}

// Returns x itself if the library can read it, otherwise a copy whose rows are a multiple of kRows.
at::Tensor readable(const at::Tensor& x) {
  const bool has_rows = x.size(0) % kRows == 0 && x.stride(1) == 1 && x.stride(0) >= x.size(1);
  const bool is_aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 && x.stride(0) % 8 == 0;
  if (has_rows && is_aligned) return x;
  const int64_t rows = (x.size(0) + kRows - 1) / kRows * kRows;
  const at::Tensor copy = at::zeros({rows, x.size(1)}, x.options());
  copy.narrow(0, 0, x.size(0)).copy_(x);
  return copy;
}

}  // namespace

CompressedWeight compressed(std::string_view op, const at::Tensor& weight, bool transpose) {
  // In fp16 an algorithm of cuSPARSELt 0.8 ends with an illegal instruction (H200), after which CUDA works no more.
  require(weight.dim() == 2 && weight.scalar_type() == at::kBFloat16, op, Level::cuda, "a pruned weight is ",
          weight.scalar_type(), " ", weight.sizes(), ", expected BFloat16 [N, K]");
  const int64_t outputs = weight.size(transpose ? 1 : 0), inputs = weight.size(transpose ? 0 : 1);
  require(multiplies_sparse(Level::cuda, /*in_bfloat16=*/true, inputs, outputs), op, Level::cuda, "a pruned weight is ",
          weight.sizes(), ", expected multiples of ", kSparseMultiple, ", which cuSPARSELt takes");
  CompressedWeight result = {{}, outputs, inputs, weight.scalar_type(), transpose};
  const auto bytes = weight.options().dtype(at::kByte);
  if (weight.is_meta()) {
    result.bytes = at::empty({compressed_bytes(outputs, inputs)}, bytes);
    return result;
  }
  const c10::cuda::CUDAGuard device(weight.device());
  const at::Tensor whole = weight.contiguous();
  const cusparseLtHandle_t* library = sparse_library(op);
  const SparseGemmMatrix matrix = weight_matrix(op, result);
  size_t size = 0, buffer_size = 0;
  check_sparse(op, cusparseLtSpMMACompressedSize2(library, matrix.get(), &size, &buffer_size), "a size");
  result.bytes = at::empty({static_cast<int64_t>(size)}, bytes);
  c10::DataPtr buffer;  // returned to the allocator in stream order
  if (buffer_size > 0) buffer = c10::cuda::CUDACachingAllocator::get()->allocate(buffer_size);
  const cusparseStatus_t status =
      cusparseLtSpMMACompress2(library, matrix.get(), /*isSparseA=*/1, weight_operation(result), whole.const_data_ptr(),
                               result.bytes.mutable_data_ptr(), buffer.get(), c10::cuda::getCurrentCUDAStream());
  check_sparse(op, status, "a weight");
  return result;
}

at::Tensor sparse_product(std::string_view op, const at::Tensor& x, const CompressedWeight& weight,
                          const at::Tensor& bias) {
  require(x.dim() == 2 && x.size(1) == weight.inputs && x.scalar_type() == weight.type, op, Level::cuda, "x is ",
          x.scalar_type(), " ", x.sizes(), ", expected ", weight.type, " [M, ", weight.inputs, "]");
  require(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.outputs && bias.scalar_type() == weight.type),
          op, Level::cuda, "the bias is not ", weight.type, " [", weight.outputs, "]");
  if (x.is_meta() || x.size(0) == 0) return at::empty({x.size(0), weight.outputs}, x.options());
  const c10::cuda::CUDAGuard device(x.device());
  const at::Tensor rows = readable(x), shift = bias.defined() ? bias.contiguous() : bias;
  const at::Tensor out = at::empty({rows.size(0), weight.outputs}, x.options());
  const SparseGemmCall call(op, {rows, weight, shift, out});
  const cusparseStatus_t status = call.plan(algorithm_for(call))->launch();
  check_sparse(op, status, "a product");
  return out.narrow(0, 0, x.size(0));
}

}  // namespace strata::kernels
