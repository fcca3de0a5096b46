// SPDX-License-Identifier: MIT
#include "trainer/config/seen_targets.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "configs/config_errors.h"
#include "kernels/attention/pattern/later_keys.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "modules/config/layer_patterns.h"

namespace strata::trainer {
namespace {

using kernels::Pattern;

// Returns the key that sets the pattern of a layer.
std::string key_of_layer(const modules::TransformerConfig& model, int64_t layer) {
  const std::string& pattern = model.attention_of(layer);
  for (size_t i = 0; i < model.layer_overrides.size(); ++i) {
    const std::optional<std::string>& entry = model.layer_overrides[i].attention;
    if (entry && &*entry == &pattern) return "layers." + std::to_string(i) + ".attention";
  }
  return "model.attention";
}

// Returns the pattern without the keys after a query.
Pattern causal_part(const Pattern& pattern) {
  const Pattern causal = {.kind = Pattern::Kind::causal};
  const bool has_all =
      pattern.kind == Pattern::Kind::full ||
      (pattern.kind == Pattern::Kind::either && std::ranges::find(pattern.parts, causal) != pattern.parts.end());
  return has_all ? causal : causal & pattern;
}

// Returns what is wrong with a pattern, or "".
std::string problem_of(const Pattern& pattern, int64_t positions) {
  const std::string text = to_text(pattern),
                    rule = "position t is trained to predict token t + 1, and with `" + text + "` ";
  if (sees_later_keys(without_prefixes(pattern), /*known=*/0, positions)) {
    return rule + "it sees tokens after it; write `" + to_text(causal_part(pattern)) + "`";
  }
  if (sees_later_keys(pattern, /*known=*/positions - 1, positions)) {
    return rule + "it sees tokens up to the last of model.sequence " + std::to_string(positions) +
           "; expected prefixes that are shorter than the sequence";
  }
  return "";
}

struct SeenTarget {
  std::string key, problem;
};

std::vector<SeenTarget> all_seen_targets(const TrainerConfig& config) {
  const auto* model = std::get_if<modules::TransformerConfig>(&config.model.type);
  if (model == nullptr) return {};
  std::map<std::string, std::vector<int64_t>> layers_by_key;  // the key sets their pattern
  for (int64_t layer = 0; layer < model->layers; ++layer) layers_by_key[key_of_layer(*model, layer)].push_back(layer);
  std::vector<SeenTarget> found;
  for (const auto& [key, layers] : layers_by_key) {
    std::string problem = problem_of(kernels::parse_pattern(model->attention_of(layers.front())), model->sequence);
    if (problem.empty()) continue;
    problem += "; this is the pattern of " + modules::layers_text(layers);
    found.push_back({key, std::move(problem)});
  }
  return found;
}

}  // namespace

std::vector<bool> ignored_positions(const modules::TransformerConfig& model) {
  std::vector<Pattern> layer_patterns(static_cast<size_t>(model.layers));
  for (const auto& [pattern, layers] : modules::layers_by_pattern(model)) {
    if (sees_later_keys(without_prefixes(pattern), /*known=*/0, model.sequence)) {
      return std::vector<bool>(static_cast<size_t>(model.sequence));
    }
    for (const int64_t layer : layers) layer_patterns[static_cast<size_t>(layer)] = pattern;
  }
  return reached_by_later(layer_patterns, model.sequence);
}

std::string seen_targets(const TrainerConfig& config) {
  std::string lines;
  for (const auto& [key, problem] : all_seen_targets(config)) lines += key + ": " + problem + "\n";
  return lines;
}

void check_targets(const LoadedConfig& loaded) {
  configs::ErrorList errors;
  for (const auto& [key, problem] : all_seen_targets(loaded.config)) {
    errors.add(configs::place_of(loaded.places, key), key, problem);
  }
  errors.throw_if_any();
}

}  // namespace strata::trainer
