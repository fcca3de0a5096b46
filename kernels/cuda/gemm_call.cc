// SPDX-License-Identifier: MIT
#include "kernels/cuda/gemm_call.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "kernels/cuda/gemm_tiles.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch_check.h"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/scale_tiles.h"

namespace strata::kernels {
namespace {

constexpr int kCandidates = 32;
// If nothing is timed, our kernel is the first candidate from this size on: one tile for each multiprocessor. cuBLASLt
// has smaller tiles for smaller results.
int64_t many_elements() { return int64_t{multiprocessors()} * 128 * 256; }

cudaDataType_t data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return CUDA_R_32F;
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat8_e5m2:
      return CUDA_R_8F_E5M2;
    case at::kFloat4_e2m1fn_x2:
      return CUDA_R_4F_E2M1;
    default:
      TORCH_CHECK_VALUE(false, "gemm: a matrix is ", type,
                        ", expected Float, BFloat16, Half, Float8_e4m3fn, Float8_e5m2 or Float4_e2m1fn_x2");
  }
}

MatrixLayout layout_of(const at::Tensor& matrix) {
  const std::optional<MatrixLayout> layout = find_layout(matrix);
  TORCH_CHECK_VALUE(layout, "gemm: a matrix has sizes ", matrix.sizes(), " and strides ", matrix.strides(),
                    ", expected rows of neighboring elements, or the transpose of such");
  return *layout;
}

// The largest power of two up to 256 that divides the address.
uint32_t alignment(const at::Tensor& tensor) {
  if (!tensor.defined()) return 256;
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address == 0 ? 256 : address & (~address + 1)));
}

cublasLtEpilogue_t epilogue_of(const Gemm& gemm) {
  const bool bias = gemm.bias.defined();
  switch (gemm.epilogue) {
    case Epilogue::none:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::relu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::gelu_tanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;  // unreachable: the switch is complete
}

// Returns the arguments of the kernel of gelu_gemm.cu, or nullopt if that kernel does not support the call.
std::optional<GeluGemm> gelu_gemm(const Gemm& g) {
  const at::ScalarType type = g.a.scalar_type();
  if (g.epilogue != Epilogue::gelu_tanh || g.add || (type != at::kBFloat16 && type != at::kHalf)) return std::nullopt;
  const MatrixLayout a = layout_of(g.a), b = layout_of(g.b), out = layout_of(g.out);
  const bool has_bias = g.bias.defined();
  const bool has_types = g.out.scalar_type() == type && (!has_bias || g.bias.scalar_type() == type);
  const bool is_aligned = (alignment(g.a) | alignment(g.b) | alignment(g.out) | alignment(g.bias)) % 16 == 0 &&
                          alignment(g.pre_activation) % 16 == 0;
  const bool is_whole = (a.distance | b.distance | out.distance | g.out.size(1)) % 8 == 0;
  const bool is_counted = std::max({g.out.size(0), g.out.size(1), g.a.size(1)}) < int64_t{1} << 30;
  if (a.transposed || !b.transposed || !has_types || !is_aligned || !is_whole || !is_counted || !is_on_hopper(g.out)) {
    return std::nullopt;
  }
  return GeluGemm{.type = type == at::kHalf ? CudaType::float16 : CudaType::bfloat16,
                  .a = g.a.const_data_ptr(),
                  .b = g.b.const_data_ptr(),
                  .bias = has_bias ? g.bias.const_data_ptr() : nullptr,
                  .out = g.out.mutable_data_ptr(),
                  .pre_activation = g.pre_activation.mutable_data_ptr(),
                  .rows = g.out.size(0),
                  .columns = g.out.size(1),
                  .depth = g.a.size(1),
                  .a_distance = a.distance,
                  .b_distance = b.distance,
                  .out_distance = out.distance};
}

}  // namespace

std::optional<MatrixLayout> find_layout(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  if (columns == 1 || matrix.stride(1) == 1) {
    if (rows == 1) return MatrixLayout{rows, columns, columns, false};
    if (matrix.stride(0) >= columns) return MatrixLayout{rows, columns, matrix.stride(0), false};
  }
  if (rows == 1 || matrix.stride(0) == 1) {
    if (columns == 1) return MatrixLayout{columns, rows, rows, true};
    if (matrix.stride(1) >= rows) return MatrixLayout{columns, rows, matrix.stride(1), true};
  }
  return std::nullopt;
}

int64_t scale_count(cublasLtMatmulMatrixScale_t mode, int64_t lines, int64_t summed) {
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0) return scale_tile_bytes(lines, (summed + 31) / 32);
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3) return scale_tile_bytes(lines, (summed + 15) / 16);
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? lines : 1;
}

template <class Value>
void GemmCall::set(cublasLtMatmulDescAttributes_t name, Value value) {
  check(cublasLtMatmulDescSetAttribute(&operation_, name, &value, sizeof(value)));
}

GemmCall::GemmCall(std::string_view op, const Gemm& gemm)
    : op_(op),
      gemm_(gemm),
      a_(layout_of(gemm.a)),
      b_(layout_of(gemm.b)),
      out_(layout_of(gemm.out)),
      gelu_gemm_(gelu_gemm(gemm)) {
  const cublasLtMatmulMatrixScale_t mode = scale_mode(gemm);
  const int64_t packed = packed_elements(gemm.a.scalar_type());
  const int64_t rows = gemm.out.size(0), columns = gemm.out.size(1), summed = gemm.a.size(1) * packed;
  const int64_t a_scales = scale_count(mode, rows, summed), b_scales = scale_count(mode, columns, summed);
  TORCH_CHECK_VALUE(!gemm.b_scale.defined() || (gemm.a_scale.sizes() == at::IntArrayRef({a_scales}) &&
                                                gemm.b_scale.sizes() == at::IntArrayRef({b_scales}) &&
                                                gemm.a_scale.scalar_type() == gemm.b_scale.scalar_type()),
                    op, "/cuda: a_scale is ", gemm.a_scale.scalar_type(), " ", gemm.a_scale.sizes(), " and b_scale ",
                    gemm.b_scale.scalar_type(), " ", gemm.b_scale.sizes(), ", expected one type and [", a_scales,
                    "] and [", b_scales, "], or both [1] in fp32");
  // For other addresses cuBLASLt offers algorithms too, and none of them runs.
  TORCH_CHECK_VALUE((alignment(gemm.a_scale) | alignment(gemm.b_scale)) % 16 == 0, op,
                    "/cuda: a_scale is at a multiple of ", alignment(gemm.a_scale), " bytes and b_scale of ",
                    alignment(gemm.b_scale), ", expected multiples of 16, which cuBLASLt needs");
  TORCH_CHECK_VALUE(!out_.transposed, op, "/cuda: out has sizes ", gemm.out.sizes(), " and strides ",
                    gemm.out.strides(), ", expected rows of neighboring elements");
  const auto type_of = [](const at::Tensor& matrix) { return data_type(matrix.scalar_type()); };
  const bool tf32 = gemm.a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
  compute_ = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&operation_, compute_, CUDA_R_32F));
  // cuBLASLt's first operand is b and its second one is a, because the product is transposed.
  set(CUBLASLT_MATMUL_DESC_TRANSA, b_.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, a_.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(gemm));
  if (gemm.bias.defined()) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(gemm.bias.scalar_type()));
  }
  if (gemm.pre_activation.defined()) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, gemm.pre_activation.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, layout_of(gemm.pre_activation).distance);
  }
  if (gemm.a_scale.defined()) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm.a_scale.const_data_ptr());
  if (gemm.b_scale.defined()) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm.b_scale.const_data_ptr());
  if (mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
  }
  if (gemm.a_tensor_scale.defined()) {
    tensor_scales_ = at::mul(gemm.a_tensor_scale, gemm.b_tensor_scale);
    set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  }
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(gemm.fast_sums && packed == 1));
  check(cublasLtMatrixLayoutInit(&b_layout_, type_of(gemm.b), b_.columns * packed, b_.rows, b_.distance * packed));
  check(cublasLtMatrixLayoutInit(&a_layout_, type_of(gemm.a), a_.columns * packed, a_.rows, a_.distance * packed));
  check(cublasLtMatrixLayoutInit(&out_layout_, type_of(gemm.out), out_.columns, out_.rows, out_.distance));
}

GemmCall::Key GemmCall::key(bool deterministic) const {
  const Gemm& g = gemm_;
  return {g.out.get_device(),
          g.out.size(0),
          g.out.size(1),
          g.a.size(1),
          a_.distance,
          b_.distance,
          out_.distance,
          g.pre_activation.defined() ? layout_of(g.pre_activation).distance : 0,
          a_.transposed,
          b_.transposed,
          static_cast<int64_t>(g.a.scalar_type()),
          static_cast<int64_t>(g.b.scalar_type()),
          static_cast<int64_t>(g.out.scalar_type()),
          g.bias.defined() ? static_cast<int64_t>(g.bias.scalar_type()) : -1,
          epilogue_of(g),
          compute_,
          g.add,
          g.fast_sums,
          scale_mode(g),
          deterministic,
          alignment(g.a) * 1024 + alignment(g.b),
          alignment(g.out),
          alignment(g.bias) * 1024 + alignment(g.pre_activation)};
}

std::vector<GemmChoice> GemmCall::candidates() {
  const std::vector<cublasLtMatmulHeuristicResult_t> proposed = proposed_algorithms();
  std::vector<GemmChoice> all(proposed.begin(), proposed.end());
  if (gelu_gemm_) all.insert(gemm_.out.numel() >= many_elements() ? all.begin() : all.end(), GemmChoice());
  return all;
}

std::vector<GemmChoice> GemmCall::other_candidates() {
  const auto is_supported = [&](const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulHeuristicResult_t& result) {
    return cublasLtMatmulAlgoCheck(at::cuda::getCurrentCUDABlasLtHandle(), &operation_, &b_layout_, &a_layout_,
                                   &out_layout_, &out_layout_, &algorithm, &result);
  };
  const auto found = algorithms_of_tiles(proposed_algorithms(), static_cast<size_t>(kMostWorkspace), is_supported);
  return {found.begin(), found.end()};
}

std::vector<cublasLtMatmulHeuristicResult_t> GemmCall::proposed_algorithms() {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<size_t>(kMostWorkspace));
  // Partial sums of a split k are added in fp32 in the workspace, in a fixed order.
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (gemm_.out.scalar_type() == at::kFloat) reductions |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(gemm_.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(gemm_.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(gemm_.out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(gemm_.out));
  std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidates);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), &operation_, &b_layout_, &a_layout_,
                                     &out_layout_, &out_layout_, &preference, kCandidates, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status);
  found.resize(count);
  std::erase_if(found, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

cublasStatus_t GemmCall::launch(const GemmChoice& choice, const void* b, void* out, bool add) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  if (!choice) {
    check_launch(launch_gelu_gemm(*gelu_gemm_, stream), "gelu_gemm", gelu_gemm_->rows, gelu_gemm_->columns);
    return CUBLAS_STATUS_SUCCESS;
  }
  const float one = 1.0f, zero_or_one = add ? 1.0f : 0.0f;
  const void *alpha = &one, *beta = &zero_or_one;
  at::Tensor on_device;  // cuBLASLt reads alpha and beta from the same place: host or device
  if (tensor_scales_.defined()) {
    on_device = at::full({1}, zero_or_one, tensor_scales_.options());
    alpha = tensor_scales_.const_data_ptr();
    beta = on_device.const_data_ptr();
  }
  c10::DataPtr workspace;  // returned to the allocator in stream order
  if (choice->workspaceSize > 0) workspace = c10::cuda::CUDACachingAllocator::get()->allocate(choice->workspaceSize);
  return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &operation_, alpha, b, &b_layout_,
                        gemm_.a.const_data_ptr(), &a_layout_, beta, out, &out_layout_, out, &out_layout_, &choice->algo,
                        workspace.get(), choice->workspaceSize, stream);
}

void GemmCall::launch(const GemmChoice& choice) { check(launch(choice, gemm_.out.mutable_data_ptr(), gemm_.add)); }

void GemmCall::check(cublasStatus_t status) const {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, op_, "/cuda: cuBLASLt failed on ", gemm_.a.scalar_type(), " ",
              gemm_.a.sizes(), " x ", gemm_.b.scalar_type(), " ", gemm_.b.sizes(), " -> ", gemm_.out.scalar_type(),
              ": ", cublasLtGetStatusString(status));
}

}  // namespace strata::kernels
