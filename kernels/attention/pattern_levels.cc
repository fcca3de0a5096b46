// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern_levels.h"

#include "kernels/attention/cuda_engines.h"

namespace strata::kernels {
namespace {

bool is_full_or_causal(const Pattern& pattern) {
  return pattern.kind == Pattern::Kind::full || pattern.kind == Pattern::Kind::causal;
}

}  // namespace

std::string why_not_pattern(Level level, const Pattern& pattern, int64_t head_width) {
  if (level != Level::cuda) return "";
  const std::string why_not = why_not_cudnn({.pattern = pattern});
  if (why_not.empty() || why_not_wgmma({.pattern = pattern, .head_width = head_width}).empty()) return "";
  return why_not + ", or heads of 64 or 128; levels aten, torchscript, aot_inductor and triton take it";
}

std::string why_not_part(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width) {
  if (level == Level::aot_inductor) {
    return "expected whole rows, which its packages are compiled for; levels aten, torchscript and triton take it";
  }
  if (level != Level::cuda) return "";
  CudaCall call = {pattern, terms, head_width};
  const std::string why_not_whole_rows = why_not_cudnn(call);
  call.is_part = true;
  const std::string why_not = why_not_cudnn(call);
  // What whole rows lack too is refused by the other functions.
  if (why_not == why_not_whole_rows || why_not_wgmma(call).empty()) return "";
  return why_not + "; levels aten, torchscript and triton take it";
}

std::string why_not_terms(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width) {
  if (level != Level::cuda) return "";
  const CudaCall call = {pattern, terms, head_width};
  const std::string why_not = why_not_cudnn(call), why_not_by_wgmma = why_not_wgmma(call);
  if (why_not.empty() || why_not_by_wgmma.empty()) return "";
  // Only one of the two takes the pattern with these heads.
  const bool by_cudnn = why_not_cudnn({.pattern = pattern}).empty();
  return (by_cudnn ? why_not : why_not_by_wgmma + " with this pattern") +
         "; levels aten, torchscript, aot_inductor and triton take it";
}

std::string why_not_heads(Level level, bool in_16_bits, int64_t width) {
  if (level == Level::aten || level == Level::torchscript) return "";
  if (level == Level::cuda && !in_16_bits) {
    return "expected bfloat16 or float16; levels aten, torchscript, aot_inductor and triton take float32";
  }
  constexpr int64_t kMost = 256;
  const int64_t unit = level == Level::cuda ? 8 : level == Level::aot_inductor ? 16 : 1;
  if (width % unit == 0 && width <= kMost) return "";
  const std::string multiple = unit == 1 ? "at most " : "a multiple of " + std::to_string(unit) + " up to ";
  return "expected heads of " + multiple + std::to_string(kMost) + "; levels aten and torchscript take all widths";
}

PatternCost pattern_cost(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width,
                         bool deterministic, bool is_part) {
  if (level == Level::torchscript || (level == Level::aten && terms.any())) {
    return {.all_pairs = true, .stores = "the scores of all pairs"};
  }
  if (level == Level::aten && is_part && pattern.kind != Pattern::Kind::full) {
    return {.all_pairs = true, .stores = "booleans of a chunk of queries and T keys"};
  }
  if (level == Level::aten && !is_full_or_causal(pattern)) return {.all_pairs = true, .stores = "T x T booleans"};
  const CudaCall call = {pattern, terms, head_width, is_part};
  const bool by_cudnn = cuda_engine(call, /*on_hopper=*/true) == CudaEngine::cudnn;
  if (level == Level::cuda && deterministic && by_cudnn)
    return {.stores = "2 bytes for each pair of each head in a backward"};
  return {};
}

}  // namespace strata::kernels
