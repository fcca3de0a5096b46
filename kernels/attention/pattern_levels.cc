// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern_levels.h"

#include <optional>
#include <vector>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

bool takes(Level level, const Pattern& pattern) {
  switch (level) {
    case Level::triton:
      return pattern.kind == Pattern::Kind::full || pattern.kind == Pattern::Kind::causal;
    case Level::cuda: {
      const std::optional<Band> band = band_of(compile_program(pattern));
      return band && (band->is_full() || (band->lowest == 0 && band->highest >= 0));
    }
    default:
      return true;
  }
}

// Returns "aten and torchscript" or "aten, torchscript and cuda".
std::string levels_that_take(const Pattern& pattern) {
  std::vector<std::string> names;
  for (const Level level : {Level::aten, Level::torchscript, Level::triton, Level::cuda}) {
    if (takes(level, pattern)) names.emplace_back(name(level));
  }
  std::string text = names.front();  // aten takes every pattern
  for (size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " and ") + names[i];
  return text;
}

}  // namespace

std::string why_not_pattern(Level level, const Pattern& pattern) {
  if (takes(level, pattern)) return "";
  const std::string expected =
      level == Level::cuda ? "full, causal or causal & window(n), each alone or with & documents" : "full or causal";
  return "expected " + expected + "; levels " + levels_that_take(pattern) + " take it";
}

}  // namespace strata::kernels
