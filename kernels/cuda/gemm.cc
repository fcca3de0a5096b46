// SPDX-License-Identifier: MIT
// A product is computed by cuBLASLt or, if gelu_tanh follows, possibly by the kernel of gelu_gemm.cu.
// cuBLASLt matrices are column-major and LibTorch matrices row-major. A row-major out [M, N] is its transpose in
// column-major order, so cuBLASLt is asked for out^T = b^T a^T.
#include "kernels/cuda/gemm.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/isnan.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/cuda/gelu_gemm.h"
#include "kernels/cuda/launch_check.h"

namespace strata::kernels {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;  // bytes; cuBLASLt's recommendation for Hopper
constexpr int kCandidates = 32;
constexpr size_t kFinalists = 6;
constexpr int kFinalRounds = 6;
// Calls that take this long bring a GPU to its power limit, where its clock depends on how much power an algorithm
// needs. The algorithm with the fastest single run is then not the fastest in the long run. A step of Llama 1B takes
// 229.0 ms with the algorithms that are fastest in the long run, 231.6 with those of the best single runs (6 layers,
// H200 at 690 W and 1480 of 1980 MHz).
constexpr float kLongCall = 1.0f;  // ms
constexpr float kNear = 1.06f;     // times the best run: candidates up to this time enter the long runs
constexpr float kLong = 250.0f;    // ms of one long run; its second half is timed
// If nothing is timed, our kernel is the first candidate from this size on: one tile for each of an H100's 132
// multiprocessors. cuBLASLt has smaller tiles for smaller results.
constexpr int64_t kManyElements = int64_t{132} * 128 * 256;

void check(cublasStatus_t status, std::string_view op, const Gemm& gemm) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, op, "/cuda: cuBLASLt failed on ", gemm.a.scalar_type(), " ",
              gemm.a.sizes(), " x ", gemm.b.sizes(), " -> ", gemm.out.scalar_type(), ": ",
              cublasLtGetStatusString(status));
}

cudaDataType_t data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return CUDA_R_32F;
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    default:
      TORCH_CHECK_VALUE(false, "gemm: a matrix is ", type, ", expected Float, BFloat16 or Half");
  }
}

// The layout of a row-major matrix in memory.
struct Layout {
  int64_t rows, columns, distance;  // elements from one row to the next
  bool transposed;                  // memory holds the transpose of the matrix
};

std::optional<Layout> find_layout(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  if (columns == 1 || matrix.stride(1) == 1) {
    if (rows == 1) return Layout{rows, columns, columns, false};
    if (matrix.stride(0) >= columns) return Layout{rows, columns, matrix.stride(0), false};
  }
  if (rows == 1 || matrix.stride(0) == 1) {
    if (columns == 1) return Layout{columns, rows, rows, true};
    if (matrix.stride(1) >= rows) return Layout{columns, rows, matrix.stride(1), true};
  }
  return std::nullopt;
}

Layout layout_of(const at::Tensor& matrix) {
  const std::optional<Layout> layout = find_layout(matrix);
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
  const Layout a = layout_of(g.a), b = layout_of(g.b), out = layout_of(g.out);
  const bool has_bias = g.bias.defined();
  const bool has_types = g.out.scalar_type() == type && (!has_bias || g.bias.scalar_type() == type);
  const bool is_aligned = (alignment(g.a) | alignment(g.b) | alignment(g.out) | alignment(g.bias)) % 16 == 0 &&
                          alignment(g.pre_activation) % 16 == 0;
  const bool is_whole = (a.distance | b.distance | out.distance | g.out.size(1)) % 8 == 0;
  const bool is_counted = std::max({g.out.size(0), g.out.size(1), g.a.size(1)}) < int64_t{1} << 30;
  if (a.transposed || !b.transposed || !has_types || !is_aligned || !is_whole || !is_counted ||
      at::cuda::getCurrentDeviceProperties()->major != 9) {
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

// The implementation for a kind of call: an algorithm of cuBLASLt, or the kernel of gelu_gemm.cu if empty.
using Choice = std::optional<cublasLtMatmulHeuristicResult_t>;

// Everything on which the choice depends.
using Key = std::array<int64_t, 20>;

// The arguments of one call for cuBLASLt, and for our kernel if it supports the call. Lives on the stack.
class Call {
 public:
  Call(std::string_view op, const Gemm& gemm)
      : op_(op),
        gemm_(gemm),
        a_(layout_of(gemm.a)),
        b_(layout_of(gemm.b)),
        out_(layout_of(gemm.out)),
        gelu_gemm_(gelu_gemm(gemm)) {
    TORCH_CHECK_VALUE(!out_.transposed, op, "/cuda: out has sizes ", gemm.out.sizes(), " and strides ",
                      gemm.out.strides(), ", expected rows of neighboring elements");
    const cudaDataType_t type = data_type(gemm.a.scalar_type()), out_type = data_type(gemm.out.scalar_type());
    const bool tf32 = gemm.a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
    compute_ = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    init(cublasLtMatmulDescInit(&operation_, compute_, CUDA_R_32F));
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
    init(cublasLtMatrixLayoutInit(&b_layout_, type, b_.columns, b_.rows, b_.distance));
    init(cublasLtMatrixLayoutInit(&a_layout_, type, a_.columns, a_.rows, a_.distance));
    init(cublasLtMatrixLayoutInit(&out_layout_, out_type, out_.columns, out_.rows, out_.distance));
  }

  Key key(bool deterministic) const {
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
            static_cast<int64_t>(g.out.scalar_type()),
            g.bias.defined() ? static_cast<int64_t>(g.bias.scalar_type()) : -1,
            epilogue_of(g),
            compute_,
            g.add,
            deterministic,
            alignment(g.a) * 1024 + alignment(g.b),
            alignment(g.out),
            alignment(g.bias) * 1024 + alignment(g.pre_activation)};
  }

  // Returns all implementations that support the call, best guess first.
  std::vector<Choice> candidates() {
    std::vector<Choice> all;
    for (const auto& algorithm : algorithms()) all.emplace_back(algorithm);
    if (gelu_gemm_) all.insert(gemm_.out.numel() >= kManyElements ? all.begin() : all.end(), Choice());
    return all;
  }

  std::vector<cublasLtMatmulHeuristicResult_t> algorithms() {
    cublasLtMatmulPreferenceOpaque_t preference{};
    init(cublasLtMatmulPreferenceInit(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      init(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
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
    check(status, op_, gemm_);
    found.resize(count);
    std::erase_if(found, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    return found;
  }

  bool has_relu() const { return gemm_.epilogue == Epilogue::relu; }

  // True if a NaN in an operand reaches `out`, which is overwritten. On an H200 the relu of some algorithms for fp16
  // makes 0 of it. With b full of NaN every element of the product is NaN; the first and the last row are checked.
  bool keeps_nan(const Choice& choice) {
    if (!choice || gemm_.add) return false;
    const at::Tensor nan = at::empty_strided(gemm_.b.sizes(), gemm_.b.strides(), gemm_.b.options());
    nan.fill_(std::numeric_limits<double>::quiet_NaN());
    if (launch(choice, nan.const_data_ptr(), gemm_.out.mutable_data_ptr(), /*add=*/false) != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    const int64_t last = gemm_.out.size(0) - 1;
    return at::isnan(gemm_.out.slice(0, 0, {}, std::max<int64_t>(last, 1))).all().item<bool>();
  }

  cublasStatus_t launch(const Choice& choice, void* out, bool add) {
    return launch(choice, gemm_.b.const_data_ptr(), out, add);
  }

  // `b`, `out` and `add` replace those of the call. Our kernel ignores all three: it always writes the call's `out` and
  // never adds.
  cublasStatus_t launch(const Choice& choice, const void* b, void* out, bool add) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    if (!choice) {
      check_launch(launch_gelu_gemm(*gelu_gemm_, stream), "gelu_gemm", gelu_gemm_->rows, gelu_gemm_->columns);
      return CUBLAS_STATUS_SUCCESS;
    }
    const float alpha = 1.0f, beta = add ? 1.0f : 0.0f;
    c10::DataPtr workspace;  // returned to the allocator in stream order
    if (choice->workspaceSize > 0) workspace = c10::cuda::CUDACachingAllocator::get()->allocate(choice->workspaceSize);
    return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &operation_, &alpha, b, &b_layout_,
                          gemm_.a.const_data_ptr(), &a_layout_, &beta, out, &out_layout_, out, &out_layout_,
                          &choice->algo, workspace.get(), choice->workspaceSize, stream);
  }

  void launch(const Choice& choice) { check(launch(choice, gemm_.out.mutable_data_ptr(), gemm_.add), op_, gemm_); }

  // Times the candidates on the caller's own operands; if the call adds to `out`, they write a scratch tensor instead.
  // The clock of a GPU falls while it multiplies, so candidates run in turns and each keeps its best run. If the best
  // run takes kLongCall or more, the finalists are timed again in long runs.
  Choice fastest_of(const std::vector<Choice>& candidates) {
    if (candidates.size() == 1) return candidates.front();
    const at::Tensor scratch =
        gemm_.add ? at::empty_strided(gemm_.out.sizes(), gemm_.out.strides(), gemm_.out.options()) : gemm_.out;
    struct Entrant {
      size_t index;
      float milliseconds = std::numeric_limits<float>::infinity();
      bool operator<(const Entrant& other) const { return milliseconds < other.milliseconds; }
    };
    std::vector<Entrant> entrants;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (launch(candidates[i], scratch.mutable_data_ptr(), gemm_.add) == CUBLAS_STATUS_SUCCESS)
        entrants.push_back({i});
    }
    TORCH_CHECK(!entrants.empty(), op_, "/cuda: none of the algorithms runs");
    const auto milliseconds_of = [&](const Entrant& entrant, int launches) {
      at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
      start.record();
      for (int i = 0; i < launches; ++i) {
        launch(candidates[entrant.index], scratch.mutable_data_ptr(), gemm_.add);
      }
      end.record();
      end.synchronize();
      return start.elapsed_time(end) / static_cast<float>(launches);
    };
    for (int round = 0; round <= kFinalRounds; ++round) {
      for (Entrant& entrant : entrants) {
        entrant.milliseconds = std::min(entrant.milliseconds, milliseconds_of(entrant, 1));
      }
      std::stable_sort(entrants.begin(), entrants.end());
      if (entrants.size() > kFinalists) entrants.resize(kFinalists);
    }
    const float best = entrants.front().milliseconds;
    std::erase_if(entrants, [&](const Entrant& entrant) { return entrant.milliseconds > kNear * best; });
    if (best < kLongCall || entrants.size() == 1) return candidates[entrants.front().index];
    const int half = static_cast<int>(kLong / 2 / best) + 1;
    for (Entrant& entrant : entrants) {
      milliseconds_of(entrant, half);
      entrant.milliseconds = milliseconds_of(entrant, half);
    }
    return candidates[std::min_element(entrants.begin(), entrants.end())->index];
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t name, Value value) {
    init(cublasLtMatmulDescSetAttribute(&operation_, name, &value, sizeof(value)));
  }
  void init(cublasStatus_t status) const { check(status, op_, gemm_); }

  std::string_view op_;
  const Gemm& gemm_;
  Layout a_, b_, out_;
  std::optional<GeluGemm> gelu_gemm_;
  cublasComputeType_t compute_;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_layout_{}, b_layout_{}, out_layout_{};
};

// Returns the implementation for this kind of call, chosen at its first call. Returns nullopt if there is none.
std::optional<Choice> choice_for(std::string_view op, Call& call) {
  static std::mutex mutex;
  static auto* known = new std::map<Key, std::optional<Choice>>;
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  const Key key = call.key(deterministic);
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  const bool times = !capturing && !deterministic;
  if (capturing && !deterministic) {
    TORCH_WARN_ONCE(op,
                    "/cuda: a product of new sizes comes during the capture of a CUDA graph, where nothing can be "
                    "timed, so the first algorithm is taken; run one step before the capture");
  }
  std::vector<Choice> candidates;
  if (times || !call.has_relu()) candidates = call.candidates();
  if (call.has_relu()) std::erase_if(candidates, [&](const Choice& choice) { return !call.keeps_nan(choice); });
  std::optional<Choice>& chosen = (*known)[key];
  if (candidates.empty()) return chosen;
  chosen = times ? call.fastest_of(candidates) : candidates.front();
  return chosen;
}

}  // namespace

at::Tensor gemm_operand(const at::Tensor& matrix) { return find_layout(matrix) ? matrix : matrix.contiguous(); }

bool try_gemm(std::string_view op, const Gemm& gemm) {
  // A traced call counts as supported. Its workspace, up to kWorkspace bytes, is not counted, because only cuBLASLt
  // knows it.
  if (gemm.out.numel() == 0 || gemm.out.is_meta()) return true;
  const c10::cuda::CUDAGuard device(gemm.out.device());
  Call call(op, gemm);
  const std::optional<Choice> choice = choice_for(op, call);
  if (choice) call.launch(*choice);
  return choice.has_value();
}

void gemm(std::string_view op, const Gemm& gemm) {
  TORCH_CHECK(try_gemm(op, gemm), op, "/cuda: cuBLASLt has no algorithm for ", gemm.a.scalar_type(), " ",
              gemm.a.sizes(), " of strides ", gemm.a.strides(), " x ", gemm.b.sizes(), " of strides ", gemm.b.strides(),
              " -> ", gemm.out.scalar_type(), "; contiguous operands at 16-byte boundaries have one");
}

}  // namespace strata::kernels
