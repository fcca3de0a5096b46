// SPDX-License-Identifier: MIT
// The choice of an algorithm for a product: by trials of how it rounds, and by its time.
#include "kernels/cuda/gemm.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/fastest_launch.h"
#include "kernels/cuda/gemm_call.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

// Calls between this time and kLongCall are also timed with other tiles. The first launch of a kernel, which loads it,
// takes up to 3 ms (H200), and a shorter call does not earn that back. A long call has many waves of tiles, so the last
// one matters little, and each candidate more may take a long run.
constexpr float kShortCall = 0.03f;  // ms
constexpr int64_t kTrialRows = 128;  // rows of `out` in a trial of how an algorithm rounds

// True if a NaN in an operand reaches `out`, which is overwritten. On an H200 the relu of some algorithms for fp16
// makes 0 of it. With b full of NaN every element of the product is NaN; the first and the last row are checked.
bool keeps_nan(GemmCall& call, const GemmChoice& choice) {
  const Gemm& gemm = call.gemm();
  if (!choice || gemm.add) return false;
  const at::Tensor nan = at::empty_strided(gemm.b.sizes(), gemm.b.strides(), gemm.b.options());
  nan.fill_(std::numeric_limits<double>::quiet_NaN());
  if (call.launch(choice, nan.const_data_ptr(), gemm.out.mutable_data_ptr(), /*add=*/false) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  const int64_t last = gemm.out.size(0) - 1;
  return at::isnan(gemm.out.slice(0, 0, {}, std::max<int64_t>(last, 1))).all().item<bool>();
}

// Scales of the type of `like` that are 1.
at::Tensor ones_of_scale(const at::Tensor& like, int64_t count) {
  constexpr int64_t kOneE8m0 = 127;
  if (like.scalar_type() == at::kFloat) return at::ones({count}, like.options());
  return at::full({count}, kOneE8m0, like.options().dtype(at::kByte)).view(like.scalar_type());
}

// True if the product is not rounded before the bias is added. On an H100 some algorithms with 16-bit results round
// it. In the trial every product is 16 (256 + 2^-4) = 4097, which both 16-bit types round to 4096. The bias is minus
// that number, so the sum is 1, or 0 if the product was rounded first. relu and gelu_tanh keep the difference. The
// product needs two columns of `a`; with one no algorithm passes.
bool rounds_once(const GemmCall& call, const GemmChoice& choice) {
  const Gemm& gemm = call.gemm();
  if (!choice || !gemm.bias.defined() || gemm.out.scalar_type() == at::kFloat) return true;
  // No code of 4 bits is 256. The bias is the start of the sums there.
  if (gemm.a.size(1) < 2 || packed_elements(gemm.a.scalar_type()) > 1) return false;
  const auto first_rows = [](const at::Tensor& matrix) {
    const at::Tensor rows = matrix.narrow(0, 0, std::min(matrix.size(0), kTrialRows));
    return at::empty_strided(rows.sizes(), rows.strides(), rows.options());
  };
  Gemm trial = {.a = first_rows(gemm.a),
                .b = at::empty_strided(gemm.b.sizes(), gemm.b.strides(), gemm.b.options()),
                .out = first_rows(gemm.out),
                .bias = at::empty_strided(gemm.bias.sizes(), gemm.bias.strides(), gemm.bias.options()),
                .epilogue = gemm.epilogue,
                .fast_sums = gemm.fast_sums};
  const cublasLtMatmulMatrixScale_t mode = scale_mode(gemm);
  if (mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {  // other scales are another kind of call
    trial.a_scale = ones_of_scale(gemm.a_scale, scale_count(mode, trial.a.size(0), trial.a.size(1)));
    trial.b_scale = ones_of_scale(gemm.b_scale, gemm.b_scale.numel());
  }
  if (gemm.pre_activation.defined()) trial.pre_activation = first_rows(gemm.pre_activation);
  trial.a.zero_().select(1, 0).fill_(256);
  trial.a.select(1, 1).fill_(0x1p-4);
  trial.b.fill_(16);
  trial.bias.fill_(-4096);
  const bool runs =
      GemmCall(call.op(), trial).launch(choice, trial.out.mutable_data_ptr(), false) == CUBLAS_STATUS_SUCCESS;
  return runs && trial.out.ne(0).all().item<bool>();
}

// Where candidates write while they are timed: a tensor of its own if the call adds to `out`, otherwise `out`.
at::Tensor scratch_of(const Gemm& gemm) {
  return gemm.add ? at::empty_strided(gemm.out.sizes(), gemm.out.strides(), gemm.out.options()) : gemm.out;
}

// Launches the candidates on the caller's own operands. `candidates` and `call` must outlive it.
LaunchCandidate launcher_of(GemmCall& call, const std::vector<GemmChoice>& candidates) {
  return [&call, &candidates, scratch = scratch_of(call.gemm())](size_t index) {
    return call.launch(candidates[index], scratch.mutable_data_ptr(), call.gemm().add) == CUBLAS_STATUS_SUCCESS;
  };
}

// True if other tiles than those that are proposed may save time, and if it takes little time to find out.
bool may_gain_by_tiles(GemmCall& call, const std::vector<GemmChoice>& candidates) {
  const LaunchCandidate launch = launcher_of(call, candidates);
  milliseconds_of(launch, 0, 1);  // the first launch loads the kernel
  const float milliseconds = milliseconds_of(launch, 0, 1);
  return milliseconds >= kShortCall && milliseconds < kLongCall;
}

// Returns the implementation for this kind of call, chosen at its first call. Returns nullopt if there is none.
std::optional<GemmChoice> choice_for(std::string_view op, GemmCall& call) {
  static std::mutex mutex;
  static auto* known = new std::map<GemmCall::Key, std::optional<GemmChoice>>;
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  const GemmCall::Key key = call.key(deterministic);
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  const bool times = !capturing && !deterministic;
  if (capturing && !deterministic) {
    TORCH_WARN_ONCE(op,
                    "/cuda: a product of new sizes comes during the capture of a CUDA graph, where nothing can be "
                    "timed, so the first algorithm is taken; run one step before the capture");
  }
  const bool has_relu = call.gemm().epilogue == Epilogue::relu;
  const auto without_wrong_ones = [&](std::vector<GemmChoice> candidates) {
    if (has_relu) std::erase_if(candidates, [&](const GemmChoice& choice) { return !keeps_nan(call, choice); });
    if (!capturing) std::erase_if(candidates, [&](const GemmChoice& choice) { return !rounds_once(call, choice); });
    return candidates;
  };
  std::vector<GemmChoice> candidates;
  if (times || !has_relu) candidates = without_wrong_ones(call.candidates());
  std::optional<GemmChoice>& chosen = (*known)[key];
  if (candidates.empty()) return chosen;
  if (!times) return chosen = candidates.front();
  if (may_gain_by_tiles(call, candidates)) {
    for (const GemmChoice& other : without_wrong_ones(call.other_candidates())) candidates.push_back(other);
  }
  return chosen = candidates[fastest_launch(op, candidates.size(), launcher_of(call, candidates))];
}

// out = a b + bias in sums of fp32 that begin as the bias. Added to rows in 16 bits, some algorithms round the product
// first (on an H100).
void add_to_bias(std::string_view op, Gemm gemm) {
  const at::Tensor out = gemm.out, bias = std::exchange(gemm.bias, {});
  const bool is_wide = out.scalar_type() == at::kFloat;
  if (!is_wide) gemm.out = at::empty(out.sizes(), out.options().dtype(at::kFloat));
  gemm.out.copy_(bias.expand_as(out));
  gemm.add = true;
  kernels::gemm(op, gemm);
  if (!is_wide) out.copy_(gemm.out);
}

}  // namespace

at::Tensor gemm_operand(const at::Tensor& matrix) { return find_layout(matrix) ? matrix : matrix.contiguous(); }

bool try_gemm(std::string_view op, const Gemm& gemm) {
  if (gemm.out.numel() == 0) return true;
  if (gemm.out.is_meta()) {
    // A traced call counts as supported. Only cuBLASLt knows its workspace. With operands of 8 bits it is mostly the
    // largest that is allowed, and is counted so.
    if (gemm.a.element_size() == 1) traced_workspace(kMostWorkspace);
    return true;
  }
  const c10::cuda::CUDAGuard device(gemm.out.device());
  GemmCall call(op, gemm);
  const std::optional<GemmChoice> choice = choice_for(op, call);
  if (choice) call.launch(*choice);
  return choice.has_value();
}

void gemm(std::string_view op, const Gemm& gemm) {
  if (try_gemm(op, gemm)) return;
  if (gemm.bias.defined() && gemm.epilogue == Epilogue::none && !gemm.add) return add_to_bias(op, gemm);
  TORCH_CHECK(false, op, "/cuda: cuBLASLt has no algorithm for ", gemm.a.scalar_type(), " ", gemm.a.sizes(),
              " of strides ", gemm.a.strides(), " x ", gemm.b.scalar_type(), " ", gemm.b.sizes(), " of strides ",
              gemm.b.strides(), " -> ", gemm.out.scalar_type(), "; contiguous operands at 16-byte boundaries have one");
}

at::Tensor gemm_gradient(std::string_view op, Gemm gemm, at::ScalarType type, const GradientDestination& where) {
  const at::Tensor& into = where.into;
  const bool direct =
      into.defined() && into.is_contiguous() && (into.scalar_type() == type || into.scalar_type() == at::kFloat);
  gemm.out = direct ? into : at::empty({gemm.a.size(0), gemm.b.size(1)}, gemm.a.options().dtype(type));
  gemm.add = direct && where.add;
  if (gemm.a.size(1) > 0) {
    kernels::gemm(op, gemm);
  } else if (!gemm.add) {  // cuBLASLt takes no sums of nothing
    gemm.out.zero_();
  }
  return direct ? at::Tensor() : accumulate(gemm.out, where);
}

}  // namespace strata::kernels
