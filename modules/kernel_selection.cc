// SPDX-License-Identifier: MIT
#include "modules/kernel_selection.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "configs/errors.h"

namespace strata::modules {
namespace {

// Absent: nobody asks for the op. For what is outside of the layers where there is no layer.
OpLevels levels_for(const KernelsConfig& config, std::optional<int64_t> layer) {
  if (!config.default_level && !config.planned) {
    throw Error(ExitCode::configuration, "kernels.default: best needs a measured plan, and none was read");
  }
  OpLevels result;
  result.each([&](const char*, std::optional<kernels::Level>& level) { level = config.default_level; });
  // Not a level of head and loss but another way to compute them: only a line of its own asks for it.
  result.linear_cross_entropy.reset();
  const auto apply = [&](OpLevels levels) {
    std::vector<std::optional<kernels::Level>> chosen;
    levels.each([&](const char*, std::optional<kernels::Level>& level) { chosen.push_back(level); });
    auto next = chosen.begin();
    result.each([&](const char*, std::optional<kernels::Level>& level) {
      if (*next) level = *next;
      ++next;
    });
  };
  apply(config.levels);
  for (const LayerKernels& line : config.layers) {
    if (layer && line.only.contains(*layer)) apply(line.levels);
  }
  return result;
}

KernelSelection selection_of(OpLevels levels) {
  std::vector<kernels::Level> chosen;
  levels.each([&](const char*, std::optional<kernels::Level>& level) {
    chosen.push_back(level.value_or(kernels::Level::aten));
  });
  KernelSelection selection;
  auto next = chosen.begin();
  selection.each([&](const char*, kernels::Level& level) { level = *next++; });
  return selection;
}

std::vector<std::string_view> names_of(OpLevels levels) {
  std::vector<std::string_view> names;
  levels.each([&](const char*, std::optional<kernels::Level>& level) {
    names.push_back(level ? kernels::name(*level) : std::string_view("-"));
  });
  return names;
}

std::string padded(std::string_view text, size_t width) {
  std::string result(text);
  result.resize(std::max(width, text.size()), ' ');
  return result;
}

}  // namespace

KernelSelection kernels_for_root(const KernelsConfig& config) { return selection_of(levels_for(config, std::nullopt)); }

KernelSelection kernels_for_layer(const KernelsConfig& config, int64_t layer) {
  return selection_of(levels_for(config, layer));
}

std::string kernel_table(const KernelsConfig& config, int64_t layers) {
  struct Row {
    std::string layers;
    std::vector<std::string_view> levels;
  };
  std::vector<Row> rows = {{"root", names_of(levels_for(config, std::nullopt))}};
  for (int64_t first = 0, last = 0; first < layers; first = last + 1) {
    const std::vector<std::string_view> levels = names_of(levels_for(config, first));
    last = first;
    while (last + 1 < layers && names_of(levels_for(config, last + 1)) == levels) ++last;
    rows.push_back(
        {first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last), levels});
  }

  std::vector<std::string_view> ops;
  KernelSelection().each([&](const char* op, kernels::Level&) { ops.push_back(op); });
  std::string text = padded("op", 22);
  for (const Row& row : rows) text += padded((row.layers == "root" ? "" : "layers ") + row.layers, 16);
  for (size_t op = 0; op < ops.size(); ++op) {
    text += "\n" + padded(ops[op], 22);
    for (const Row& row : rows) text += padded(row.levels[op], 16);
  }
  return text + "\n";
}

}  // namespace strata::modules
