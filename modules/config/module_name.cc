// SPDX-License-Identifier: MIT
#include "modules/config/module_name.h"

#include <charconv>
#include <utility>

namespace strata::modules {
namespace {

// Returns the first word and the text after its dot.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::optional<int64_t> number(std::string_view word) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || problem != std::errc() || end != word.data() + word.size() || value < 0) return {};
  return value;
}

// True if `module` is `name` or a part of it.
bool contains(std::string_view name, std::string_view module) {
  return !name.empty() && module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
}

}  // namespace

std::string block_name(int64_t index) { return "blocks." + std::to_string(index); }

std::string graph_layer_name(int64_t index) { return "layers." + std::to_string(index); }

std::optional<int64_t> layer_of(std::string_view module) { return number(split(split(module).second).first); }

std::string_view name_in_layer(std::string_view module) {
  return layer_of(module) ? split(split(module).second).second : module;
}

std::string joined_name(std::string_view module, std::string_view part) {
  std::string name(module);
  if (!module.empty() && !part.empty()) name += '.';
  return name.append(part);
}

std::optional<configs::Range> layers_in(std::string_view name) {
  const std::string_view word = split(split(name).second).first;
  const size_t dash = word.find('-');
  const std::optional<int64_t> first = number(word.substr(0, dash));
  const std::optional<int64_t> last = dash == std::string_view::npos ? first : number(word.substr(dash + 1));
  if (!first || !last) return {};
  return configs::Range{*first, *last};
}

bool covers(std::string_view name, std::string_view module) {
  if (contains(name, name_in_layer(module))) return true;
  const std::optional<int64_t> layer = layer_of(module);
  const auto [list, in_list] = split(name);
  if (!layer || list != split(module).first) return false;
  if (list.size() == name.size()) return true;  // blocks
  const std::optional<configs::Range> layers = layers_in(name);
  if (!layers || !layers->contains(*layer)) return false;
  const auto [index, in_layer] = split(in_list);
  return index.size() == in_list.size() || contains(in_layer, name_in_layer(module));  // blocks.3, or a part of it
}

}  // namespace strata::modules
