// SPDX-License-Identifier: MIT
#include "modules/kernel_selection.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "configs/errors.h"

namespace strata::modules {
namespace {

void apply(OpLevels levels, KernelSelection& selection) {
  std::vector<std::optional<kernels::Level>> chosen;
  levels.each([&](const char*, std::optional<kernels::Level>& level) { chosen.push_back(level); });
  auto next = chosen.begin();
  selection.each([&](const char*, kernels::Level& level) { level = next++->value_or(level); });
}

std::vector<std::string_view> names_of(KernelSelection selection) {
  std::vector<std::string_view> names;
  selection.each([&](const char*, kernels::Level& level) { names.push_back(kernels::name(level)); });
  return names;
}

std::string padded(std::string_view text, size_t width) {
  std::string result(text);
  result.resize(std::max(width, text.size()), ' ');
  return result;
}

}  // namespace

KernelSelection kernels_for_root(const KernelsConfig& config) {
  KernelSelection selection;
  if (config.default_level) {
    selection.each([&](const char*, kernels::Level& level) { level = *config.default_level; });
  } else {
    OpLevels levels = config.levels;
    levels.each([](const char* op, std::optional<kernels::Level>& level) {
      if (level) return;
      throw Error(
          ExitCode::configuration,
          std::string("kernels.default: best needs a measured plan, and none was read that has a level of ") + op);
    });
  }
  apply(config.levels, selection);
  return selection;
}

KernelSelection kernels_for_layer(const KernelsConfig& config, int64_t layer) {
  KernelSelection selection = kernels_for_root(config);
  for (const LayerKernels& line : config.layers) {
    if (line.only.contains(layer)) apply(line.levels, selection);
  }
  return selection;
}

std::string kernel_table(const KernelsConfig& config, int64_t layers) {
  struct Row {
    std::string layers;
    std::vector<std::string_view> levels;
  };
  std::vector<Row> rows = {{"root", names_of(kernels_for_root(config))}};
  for (int64_t first = 0, last = 0; first < layers; first = last + 1) {
    const std::vector<std::string_view> levels = names_of(kernels_for_layer(config, first));
    last = first;
    while (last + 1 < layers && names_of(kernels_for_layer(config, last + 1)) == levels) ++last;
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
