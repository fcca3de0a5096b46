// SPDX-License-Identifier: MIT
#include "kernels/attention/cuda_engines.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

// The n of the narrowest window, or kNoWindow.
constexpr int64_t kNoWindow = std::numeric_limits<int64_t>::max();
int64_t narrowest_window(const Pattern& pattern) {
  int64_t narrowest = pattern.kind == Pattern::Kind::window ? pattern.n : kNoWindow;
  for (const Pattern& part : pattern.parts) narrowest = std::min(narrowest, narrowest_window(part));
  return narrowest;
}

// The engine that takes the call, or the choice if both do.
CudaEngine one_that_takes(const CudaCall& call, bool on_hopper, CudaEngine choice) {
  if (!on_hopper || !why_not_wgmma(call).empty()) return CudaEngine::cudnn;
  return why_not_cudnn(call).empty() ? choice : CudaEngine::wgmma;
}

}  // namespace

std::string why_not_cudnn(const CudaCall& call) {
  const Program program = compile_program(call.pattern);
  const std::optional<Band> band = band_of(program);
  if (!band && !causal_prefix_of(program)) {
    return "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
           "prefix(n)";
  }
  const ScoreTerms& terms = call.terms;
  const bool has_documents = band && band->documents, sees_later_keys = !band || band->lowest < 0;
  if (call.of_part && has_documents) return "expected a pattern without documents";
  // cuDNN takes alibi only with the causal mask of a whole row.
  if (call.of_part && terms.alibi) return "expected no alibi";
  if (terms.sinks && has_documents) return "expected a pattern without documents with sinks";
  if (terms.alibi && sees_later_keys) return "expected a causal pattern with alibi";
  if (terms.alibi && terms.softcap != 0) return "expected alibi or a softcap, and not both";
  return "";
}

std::string why_not_wgmma(const CudaCall& call) {
  if (call.head_width != 64 && call.head_width != 128) return "expected heads of 64 or 128";
  if (call.terms.alibi || call.terms.softcap != 0) return "expected neither alibi nor a softcap";
  return "";
}

CudaEngine forward_engine(const CudaCall& call, bool on_hopper) {
  // bf16, 2 x 8192 positions, 32/8 heads of 128 on H200s, Nov 28 (cuDNN: Nov 26): causal & window(256) takes 0.205 ms
  // and 0.22 in cuDNN, and causal & window(1024) 0.49 and 0.51. Other patterns of cuDNN are as fast there, or faster.
  const bool has_window = narrowest_window(call.pattern) != kNoWindow;
  return one_that_takes(call, on_hopper, has_window ? CudaEngine::wgmma : CudaEngine::cudnn);
}

CudaEngine backward_engine(const CudaCall& call, bool on_hopper) {
  // The same shape: causal & window(256) takes 0.74 ms and 0.92 in cuDNN, but causal & window(1024) 1.78 and 1.71.
  constexpr int64_t kWidest = 512;
  const bool is_narrow = narrowest_window(call.pattern) <= kWidest;
  return one_that_takes(call, on_hopper, is_narrow ? CudaEngine::wgmma : CudaEngine::cudnn);
}

}  // namespace strata::kernels
