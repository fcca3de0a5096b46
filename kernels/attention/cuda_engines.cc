// SPDX-License-Identifier: MIT
#include "kernels/attention/cuda_engines.h"

#include <optional>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

std::string why_not_cudnn(const CudaCall& call) {
  const Program program = compile_program(call.pattern);
  const std::optional<Band> band = band_of(program);
  if (!band && !causal_prefix_of(program)) {
    return "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
           "prefix(n)";
  }
  const ScoreTerms& terms = call.terms;
  const bool has_documents = band && band->documents, sees_later_keys = !band || band->lowest < 0;
  if (call.is_part && has_documents) return "expected a pattern without documents";
  // cuDNN takes alibi only with the causal mask of a whole row.
  if (call.is_part && terms.alibi) return "expected no alibi";
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

CudaEngine cuda_engine(const CudaCall& call, bool on_hopper) {
  if (!on_hopper || !why_not_wgmma(call).empty()) return CudaEngine::cudnn;
  if (!why_not_cudnn(call).empty()) return CudaEngine::wgmma;
  // bf16, 2 x 8192 positions, 32/8 heads of 128 on H200s, Nov 28 (cuDNN: Nov 26). Forward and backward of causal &
  // window(256) take 0.20 and 0.74 ms, and 0.22 and 0.92 in cuDNN; causal & window(1024) takes 0.49 and 1.78, and
  // 0.51 and 1.71. Other patterns of cuDNN are as fast there, or faster.
  return has_word(call.pattern, Pattern::Kind::window) ? CudaEngine::wgmma : CudaEngine::cudnn;
}

}  // namespace strata::kernels
