// SPDX-License-Identifier: MIT
#include "trainer/levels/pattern_check.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/text/word_of.h"
#include "kernels/attention/cudnn/cudnn_gpus.h"
#include "kernels/attention/pattern_levels.h"
#include "modules/config/layer_patterns.h"
#include "modules/config/module_name.h"
#include "trainer/config/computed_pattern.h"

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

// Adds the levels that do not take the heads of a transformer's layers.
void add_refused_heads(const TrainerConfig& config, int64_t layers, int64_t width, std::vector<RefusedLevel>& refused) {
  std::map<std::tuple<std::string, Level, FloatType>, Layers> lines;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const modules::ChosenLevel chosen = chosen_level_of_attention(config.kernels, layer);
    lines[{chosen.path, chosen.or_aten(), config.precision.compute_of(modules::block_name(layer))}].push_back(layer);
  }
  for (const auto& [line, of_line] : lines) {
    const auto& [path, level, type] = line;
    const std::string why = kernels::why_not_heads(level, type != FloatType::float32, width);
    const std::string what = "heads of " + std::to_string(width) + " in " + word_of(type);
    if (!why.empty()) refused.push_back(refused_level(path, level, what, of_line, why));
  }
}

}  // namespace

modules::ChosenLevel chosen_level_of_attention(const modules::KernelsConfig& kernels, int64_t layer) {
  return modules::chosen_level(kernels, modules::joined_name(modules::block_name(layer), kAttention), kAttention);
}

std::vector<RefusedLevel> refused_levels_of_attention(const TrainerConfig& config,
                                                      const std::optional<kernels::Gpu>& gpu) {
  std::vector<RefusedLevel> refused;
  if (const auto* images = std::get_if<modules::VisionTransformerConfig>(&config.model.type)) {
    add_refused_heads(config, images->layers, images->width / images->heads, refused);
  }
  const auto* model = std::get_if<modules::TransformerConfig>(&config.model.type);
  if (model == nullptr) return refused;
  add_refused_heads(config, model->layers, model->width_of_head(), refused);
  for (const auto& [of_layers, layers] : modules::layers_by_pattern(*model)) {
    const kernels::Pattern pattern = computed_pattern(config.data, of_layers);
    std::map<std::string, std::pair<Level, Layers>> lines;
    for (const int64_t layer : layers) {
      const modules::ChosenLevel chosen = chosen_level_of_attention(config.kernels, layer);
      lines.try_emplace(chosen.path, chosen.or_aten(), Layers()).first->second.second.push_back(layer);
    }
    for (const auto& [path, line] : lines) {
      std::string what = to_text(pattern), why = kernels::why_not_pattern(line.first, pattern);
      if (why.empty() && config.sharding.sequence > 1) {
        why = kernels::why_not_part(line.first, pattern, model->score_terms());
        if (!why.empty()) why = "with sharding.sequence above 1: " + why;
      }
      if (why.empty()) {
        what = to_text(model->score_terms());
        why = kernels::why_not_terms(line.first, pattern, model->score_terms());
      }
      if (why.empty() && gpu) {
        what = to_text(pattern) + " with heads of " + std::to_string(model->width_of_head());
        why = kernels::why_not_on_gpu(line.first, *gpu,
                                      {.has_documents = has_word(pattern, kernels::Pattern::Kind::documents),
                                       .alibi = model->score_terms().alibi,
                                       .deterministic = config.run.deterministic,
                                       .head_width = model->width_of_head()});
      }
      if (!why.empty()) refused.push_back(refused_level(path, line.first, what, line.second, why));
    }
  }
  return refused;
}

void add_refused_patterns(const LoadedConfig& loaded, const std::optional<kernels::Gpu>& gpu,
                          configs::ErrorList& errors) {
  for (const auto& [path, why] : refused_levels_of_attention(loaded.config, gpu)) {
    errors.add(configs::place_of(loaded.places, path), /*path=*/"", path + ": " + why);
  }
}

}  // namespace strata::trainer
