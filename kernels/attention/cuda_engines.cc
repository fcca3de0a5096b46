// SPDX-License-Identifier: MIT
#include "kernels/attention/cuda_engines.h"

#include <optional>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

bool has_window(const Pattern& pattern) { return has_word(pattern, Pattern::Kind::window); }

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
  return one_that_takes(call, on_hopper, has_window(call.pattern) ? CudaEngine::wgmma : CudaEngine::cudnn);
}

CudaEngine backward_engine(const CudaCall& call, bool on_hopper, bool deterministic) {
  // cuDNN's deterministic algorithms have a workspace that grows with the number of pairs.
  return one_that_takes(call, on_hopper, deterministic ? CudaEngine::wgmma : CudaEngine::cudnn);
}

}  // namespace strata::kernels
