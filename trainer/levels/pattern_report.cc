// SPDX-License-Identifier: MIT
#include "trainer/levels/pattern_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/formatted.h"
#include "base/text/grouped_digits.h"
#include "base/text/word_of.h"
#include "configs/value.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/picture.h"
#include "kernels/attention/pattern/tiles.h"
#include "kernels/attention/pattern_levels.h"
#include "modules/config/layer_patterns.h"
#include "modules/config/sequence_chunks.h"
#include "trainer/levels/pattern_check.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using Layers = std::vector<int64_t>;

constexpr int64_t kMostPositions = 131'072;  // whose tiles are counted: 4,194,304

std::string percent(double share) { return formatted("%.3g %%", 100 * share); }

std::string shares_text(const kernels::Pattern& pattern, int64_t positions) {
  const double pairs = static_cast<double>(positions) * static_cast<double>(positions);
  const std::string seen =
      percent(static_cast<double>(count_pairs(pattern, positions)) / pairs) + " of pairs are visible, ";
  if (positions > kMostPositions)
    return seen + "tiles are counted up to " + std::to_string(kMostPositions) + " positions";
  const kernels::TileSize size;
  const kernels::Tiles tiles = compile_tiles(pattern, positions, positions, size);
  return seen + "in " + percent(tiles.share_of_tiles()) + " of tiles of " + std::to_string(size.queries) + " x " +
         std::to_string(size.keys);
}

// If ranks share sequences: returns which share of all visible pairs the rank with most of them computes.
std::string busiest_rank_text(const kernels::Pattern& pattern, int64_t positions, int64_t ranks) {
  const modules::SequenceChunks chunks = {ranks, positions};
  int64_t all = 0, most = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int64_t pairs = 0;
    for (const int64_t first : chunks.starts(rank)) {
      pairs += count_pairs(pattern, kernels::Rectangle{first, first + chunks.length(), 0, positions});
    }
    all += pairs;
    most = std::max(most, pairs);
  }
  return "    of " + std::to_string(ranks) + " ranks that share a sequence, the busiest computes " +
         percent(static_cast<double>(most) / static_cast<double>(all)) + " of the visible pairs\n";
}

std::string level_text(std::optional<Level> level, const kernels::Pattern& pattern, const RunAttention& attention) {
  if (!level) return "level best: a plan chooses it";
  const kernels::PatternCost cost =
      kernels::pattern_cost(*level, pattern, attention.model_attention.terms, attention.model_attention.head_width,
                            attention.deterministic, attention.is_split());
  return "level " + std::string(name(*level)) + " computes " +
         (cost.all_pairs ? "all pairs (100 % of tiles)" : "the tiles with visible pairs, of its own size") +
         ", and stores " + std::string(cost.stores.empty() ? "nothing for each pair" : cost.stores);
}

// The documents of a run are not known here. The examples are four documents, or fewer for fewer positions, whose
// lengths grow evenly.
std::vector<int32_t> example_documents(int64_t positions) {
  const int64_t documents = std::min<int64_t>(positions, 4);
  std::vector<int32_t> document_of(static_cast<size_t>(positions));
  for (int32_t document = 1; document < documents; ++document) {
    std::fill(document_of.begin() + kernels::begin_of_document(positions, documents, document), document_of.end(),
              document);
  }
  return document_of;
}

// Empty if all layers have the same rotary positions, or none.
std::string rotary_text(const std::vector<modules::LayersOfRotary>& all) {
  if (all.size() == 1) return "";
  std::string text = "rotary positions:\n";
  for (const auto& [rotary, layers] : all) {
    const modules::RotaryScaling& scaling = rotary.scaling;
    const bool is_scaled = scaling.type != modules::RotaryScalingType::none;
    text += "  base " + configs::to_text(rotary.base) +
            (is_scaled ? ", scaling " + word_of(scaling.type) + " by " + configs::to_text(scaling.factor) : "") +
            " in " + modules::layers_text(layers) + "\n";
  }
  return text;
}

}  // namespace

std::string pattern_report(const std::optional<RunAttention>& attention, const modules::KernelsConfig& kernels) {
  if (!attention || attention->model_attention.patterns.empty()) return "";
  const modules::ModelAttention& model_attention = attention->model_attention;
  std::string text = "attention of " + grouped_digits(model_attention.positions) + " positions" +
                     (model_attention.terms.any() ? ", with " + to_text(model_attention.terms) : "") + ":\n";
  for (const auto& [pattern, layers] : model_attention.patterns) {
    const kernels::Pattern computed = attention->computed(pattern);
    text += "  " + to_text(computed) + " in " + modules::layers_text(layers) + ": " +
            (computed == pattern ? "" : "at most ") + shares_text(pattern, model_attention.positions) + "\n";
    if (attention->is_split()) text += busiest_rank_text(pattern, model_attention.positions, attention->sequence_ranks);
    std::map<std::optional<Level>, Layers> levels;
    for (const int64_t layer : layers) levels[chosen_level_of_attention(kernels, layer).level].push_back(layer);
    for (const auto& [level, its] : levels) {
      text += "    " + (levels.size() == 1 ? "" : modules::layers_text(its) + ": ") +
              level_text(level, computed, *attention) + "\n";
    }
  }
  return text + rotary_text(model_attention.rotary);
}

std::vector<std::string> write_pattern_pictures(const modules::ModelConfig& model, const DataConfig& data,
                                                const std::string& folder) {
  const std::optional<modules::ModelAttention> attention = modules::attention_of(model);
  if (!attention || attention->patterns.empty()) {
    throw Error(ExitCode::configuration,
                "pictures of patterns: expected a model of type transformer, got " + model.type_name());
  }
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error(ExitCode::storage, "cannot make the folder " + folder + ": " + problem.message());
  std::vector<std::string> paths;
  for (const auto& [pattern, layers] : attention->patterns) {
    paths.push_back(folder + "/attention_layer_" + std::to_string(layers.front()) + ".svg");
    const kernels::Pattern computed = computed_pattern(documents_of(data), pattern);
    const int64_t positions = attention->positions;
    replace_file(paths.back(), kernels::pattern_picture(computed, positions, example_documents(positions)));
  }
  return paths;
}

}  // namespace strata::trainer
