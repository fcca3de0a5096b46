// SPDX-License-Identifier: MIT
#include "trainer/levels/pattern_check.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/text/word_of.h"
#include "kernels/attention/cuda_engines.h"
#include "kernels/attention/cudnn/cudnn_gpus.h"
#include "kernels/attention/pattern_levels.h"
#include "modules/config/layer_patterns.h"
#include "modules/config/module_name.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using Layers = std::vector<int64_t>;

constexpr std::string_view kAttention = "attention";

RefusedLevel refused_level(const std::string& path, Level level, const std::string& what, const Layers& layers,
                           const std::string& why) {
  return {path, "attention at level " + std::string(name(level)) + " does not take " + what + " of " +
                    modules::layers_text(layers) + ", " + why};
}

// Adds the levels that do not take the heads of some layers.
void add_refused_heads(const modules::ModelAttention& attention, const modules::KernelsConfig& kernels,
                       const PrecisionConfig& precision, std::vector<RefusedLevel>& refused) {
  std::map<std::tuple<std::string, Level, FloatType>, Layers> lines;
  for (int64_t layer = 0; layer < attention.layers; ++layer) {
    const modules::ChosenLevel chosen = chosen_level_of_attention(kernels, layer);
    lines[{chosen.path, chosen.or_aten(), precision.compute_of(modules::block_name(layer))}].push_back(layer);
  }
  const int64_t width = attention.head_width;
  for (const auto& [line, line_layers] : lines) {
    const auto& [path, level, type] = line;
    const std::string why = kernels::why_not_heads(level, type != FloatType::float32, width);
    const std::string what = "heads of " + std::to_string(width) + " in " + word_of(type);
    if (!why.empty()) refused.push_back(refused_level(path, level, what, line_layers, why));
  }
}

// What a level does not take of a pattern, and why not; `why` is empty if it takes all.
struct Refusal {
  std::string what, why;
};

Refusal refusal_of(Level level, const RunAttention& attention, const kernels::Pattern& pattern,
                   const std::optional<kernels::Gpu>& gpu) {
  const modules::ModelAttention& model_attention = attention.model_attention;
  std::string why = kernels::why_not_pattern(level, pattern, model_attention.head_width);
  if (!why.empty()) return {to_text(pattern), why};
  if (attention.is_split())
    why = kernels::why_not_part(level, pattern, model_attention.terms, model_attention.head_width);
  if (!why.empty()) return {to_text(pattern), "with sharding.sequence above 1: " + why};
  why = kernels::why_not_terms(level, pattern, model_attention.terms, model_attention.head_width);
  if (!why.empty() || !gpu) return {to_text(model_attention.terms), why};
  why = kernels::why_not_on_gpu(
      level, *gpu,
      {.only_on_hopper =
           !kernels::why_not_cudnn({pattern, model_attention.terms, model_attention.head_width, attention.is_split()})
                .empty(),
       .has_documents = has_word(pattern, kernels::Pattern::Kind::documents),
       .alibi = model_attention.terms.alibi,
       .deterministic = attention.deterministic,
       .head_width = model_attention.head_width});
  return {to_text(pattern) + " with heads of " + std::to_string(model_attention.head_width), why};
}

}  // namespace

modules::ChosenLevel chosen_level_of_attention(const modules::KernelsConfig& kernels, int64_t layer) {
  return modules::chosen_level(kernels, modules::joined_name(modules::block_name(layer), kAttention), kAttention);
}

std::vector<RefusedLevel> refused_levels_of_attention(const std::optional<RunAttention>& attention,
                                                      const modules::KernelsConfig& kernels,
                                                      const PrecisionConfig& precision,
                                                      const std::optional<kernels::Gpu>& gpu) {
  std::vector<RefusedLevel> refused;
  if (!attention) return refused;
  add_refused_heads(attention->model_attention, kernels, precision, refused);
  for (const auto& [layer_pattern, layers] : attention->model_attention.patterns) {
    const kernels::Pattern pattern = attention->computed(layer_pattern);
    std::map<std::string, std::pair<Level, Layers>> lines;
    for (const int64_t layer : layers) {
      const modules::ChosenLevel chosen = chosen_level_of_attention(kernels, layer);
      lines.try_emplace(chosen.path, chosen.or_aten(), Layers()).first->second.second.push_back(layer);
    }
    for (const auto& [path, line] : lines) {
      const auto& [what, why] = refusal_of(line.first, *attention, pattern, gpu);
      if (!why.empty()) refused.push_back(refused_level(path, line.first, what, line.second, why));
    }
  }
  return refused;
}

void add_refused_patterns(const LoadedConfig& loaded, const std::optional<kernels::Gpu>& gpu,
                          configs::ErrorList& errors) {
  const TrainerConfig& config = loaded.config;
  for (const auto& [path, why] :
       refused_levels_of_attention(attention_of_run(config), config.kernels, config.precision, gpu)) {
    errors.add(configs::place_of(loaded.places, path), /*path=*/"", path + ": " + why);
  }
}

}  // namespace strata::trainer
