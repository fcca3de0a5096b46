// SPDX-License-Identifier: MIT
#include "modules/config/layer_patterns.h"

#include <algorithm>
#include <map>

#include "base/text/joined.h"
#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::modules {
namespace {

// Adds a layer to the one of `all` whose `member` is `value`, or to a new one.
template <class Layers, class T>
void add_layer(std::vector<Layers>& all, T Layers::*member, const T& value, int64_t layer) {
  const auto same = std::ranges::find(all, value, member);
  (same != all.end() ? *same : all.emplace_back(Layers{value, {}})).layers.push_back(layer);
}

}  // namespace

std::vector<LayersOfPattern> layers_by_pattern(const TransformerConfig& model) {
  std::map<std::string, kernels::Pattern> patterns;  // by their text, which many layers share
  std::vector<LayersOfPattern> all;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string& text = model.attention_of(layer);
    const auto known = patterns.find(text);
    const kernels::Pattern& pattern =
        known != patterns.end() ? known->second : patterns.emplace(text, kernels::parse_pattern(text)).first->second;
    add_layer(all, &LayersOfPattern::pattern, pattern, layer);
  }
  return all;
}

std::vector<LayersOfRotary> layers_by_rotary(const TransformerConfig& model) {
  std::vector<LayersOfRotary> all;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    add_layer(all, &LayersOfRotary::rotary, model.rotary_of(layer), layer);
  }
  return all;
}

std::vector<configs::Range> ranges_of(std::span<const int64_t> ascending) {
  std::vector<configs::Range> ranges;
  for (size_t i = 0; i < ascending.size();) {
    configs::Range range = {ascending[i], ascending[i]};
    size_t end = i + 1;
    if (end < ascending.size()) range.step = ascending[end] - ascending[i];
    while (end < ascending.size() && ascending[end] - ascending[end - 1] == range.step) ++end;
    if (end - i == 2 && range.step != 1) end = i + 1;
    range.last = ascending[end - 1];
    ranges.push_back(range);
    i = end;
  }
  return ranges;
}

std::string layers_text(std::span<const int64_t> ascending) {
  const auto to_text = [](const configs::Range& range) { return configs::to_text(range); };
  return (ascending.size() == 1 ? "layer " : "layers ") + joined(ranges_of(ascending), ", ", to_text);
}

}  // namespace strata::modules
