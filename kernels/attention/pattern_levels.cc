// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern_levels.h"

#include <optional>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

bool is_full_or_causal(const Pattern& pattern) {
  return pattern.kind == Pattern::Kind::full || pattern.kind == Pattern::Kind::causal;
}

}  // namespace

std::string why_not_pattern(Level level, const Pattern& pattern) {
  if (level != Level::cuda) return "";
  const Program program = compile_program(pattern);
  if (band_of(program) || causal_prefix_of(program)) return "";
  return "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
         "prefix(n); levels aten, torchscript, aot_inductor and triton take it";
}

std::string why_not_part(Level level, const Pattern& pattern, const ScoreTerms& terms) {
  if (level == Level::aot_inductor) {
    return "expected whole rows, which its packages are compiled for; levels aten, torchscript and triton take it";
  }
  if (level == Level::cuda && has_word(pattern, Pattern::Kind::documents)) {
    return "expected a pattern without documents; levels aten, torchscript and triton take it";
  }
  // cuDNN takes alibi only with the causal mask of a whole row.
  if (level == Level::cuda && terms.alibi) return "expected no alibi; levels aten, torchscript and triton take it";
  return "";
}

std::string why_not_terms(Level level, const Pattern& pattern, const ScoreTerms& terms) {
  if (level != Level::cuda) return "";
  constexpr std::string_view kOthers = "; levels aten, torchscript, aot_inductor and triton take it";
  const std::optional<Band> band = band_of(compile_program(pattern));
  const bool sees_later_keys = !band || band->lowest < 0;
  std::string expected;
  if (terms.alibi && terms.softcap != 0) expected = "expected alibi or a softcap, and not both";
  if (terms.alibi && sees_later_keys) expected = "expected a causal pattern with alibi";
  if (terms.sinks && band && band->documents) expected = "expected a pattern without documents with sinks";
  return expected.empty() ? "" : expected.append(kOthers);
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

PatternCost pattern_cost(Level level, const Pattern& pattern, const ScoreTerms& terms, bool deterministic,
                         bool of_part) {
  if (level == Level::torchscript || (level == Level::aten && terms.any())) {
    return {.all_pairs = true, .stores = "the scores of all pairs"};
  }
  if (level == Level::aten && of_part && pattern.kind != Pattern::Kind::full) {
    return {.all_pairs = true, .stores = "booleans of a chunk of queries and T keys"};
  }
  if (level == Level::aten && !is_full_or_causal(pattern)) return {.all_pairs = true, .stores = "T x T booleans"};
  if (level == Level::cuda && deterministic) return {.stores = "2 bytes for each pair of each head in a backward"};
  return {};
}

}  // namespace strata::kernels
