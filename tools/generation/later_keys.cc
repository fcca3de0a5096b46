// SPDX-License-Identifier: MIT
#include "tools/generation/later_keys.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern_mask.h"
#include "modules/config/layer_patterns.h"

namespace strata::generation {
namespace {

using at::Tensor;
using kernels::Pattern;

bool is_causal(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::causal) return true;
  if (pattern.kind != Pattern::Kind::both) return false;
  return std::any_of(pattern.parts.begin(), pattern.parts.end(), is_causal);
}

}  // namespace

bool sees_later_keys(const Pattern& pattern, int64_t prompt, int64_t positions) {
  if (is_causal(pattern)) return false;
  constexpr int64_t kQueries = 64;  // at once, so that the pairs of a long context need little memory
  const kernels::Program program = kernels::compile_program(kernels::of_one_document(pattern));
  const Tensor key = at::arange(positions, at::kLong).unsqueeze(0);
  for (int64_t first = 0; first < positions; first += kQueries) {
    const Tensor query = at::arange(first, std::min(first + kQueries, positions), at::kLong).unsqueeze(1);
    const Tensor later = key.gt(query.clamp_min(prompt - 1));
    if ((kernels::pairs_mask(program, query, key) & later).any().item<bool>()) return true;
  }
  return false;
}

void check_no_later_keys(const modules::TransformerConfig& config, int64_t prompt, int64_t positions) {
  for (const modules::LayersOfPattern& layers : modules::layers_by_pattern(config)) {
    if (!sees_later_keys(layers.pattern, prompt, positions)) continue;
    throw Error(ExitCode::configuration,
                "attention of " + modules::layers_text(layers.layers) + " is " + to_text(layers.pattern) +
                    ", so tokens see tokens after them that are not generated yet; samples need a model whose "
                    "attention is causal, or sees ahead only inside of the prompt");
  }
}

}  // namespace strata::generation
