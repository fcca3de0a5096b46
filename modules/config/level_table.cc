// SPDX-License-Identifier: MIT
#include "modules/config/level_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

// The level of one op in one module. `module` is its name within the layer.
struct Cell {
  std::string op, module;
  std::string_view level;

  bool operator==(const Cell&) const = default;
};

struct Column {
  std::string title;
  std::vector<Cell> cells;

  // Returns "-" if the op is not computed here, and an empty text if it has several levels.
  std::string_view level(const std::string& op, const std::optional<std::string>& module) const {
    std::string_view found = "-";
    for (const Cell& cell : cells) {
      if (cell.op != op || (module && cell.module != *module)) continue;
      if (found != "-" && found != cell.level) return "";
      found = cell.level;
    }
    return found;
  }
};

std::vector<Column> columns_of(const KernelsConfig& config, const std::vector<Module>& modules) {
  Column root{"root", {}};
  std::map<int64_t, std::vector<Cell>> layers;
  for (const Module& module : modules) {
    const std::optional<int64_t> layer = layer_of(module.name);
    std::vector<Cell>& cells = layer ? layers[*layer] : root.cells;
    for (const std::string_view op : module.ops) {
      const kernels::Level level = level_for(config, module.name, op);
      cells.push_back({std::string(op), std::string(name_in_layer(module.name)), kernels::name(level)});
    }
  }
  std::vector<Column> columns = {root};
  for (auto next = layers.begin(); next != layers.end();) {
    const auto first = next;
    configs::Range range{first->first, first->first};
    for (; next != layers.end() && next->second == first->second; ++next) range.last = next->first;
    columns.push_back({"layers " + text_of(range), first->second});
  }
  return columns;
}

// Returns the modules that compute an op.
std::vector<std::string> modules_with(const std::string& op, const std::vector<Column>& columns) {
  std::vector<std::string> modules;
  for (const Column& column : columns) {
    for (const Cell& cell : column.cells) {
      if (cell.op == op && std::find(modules.begin(), modules.end(), cell.module) == modules.end()) {
        modules.push_back(cell.module);
      }
    }
  }
  return modules;
}

using Row = std::vector<std::string_view>;

// Returns pairs of a row's label and its levels.
std::vector<std::pair<std::string, Row>> rows_of(const std::vector<Column>& columns) {
  std::vector<std::pair<std::string, Row>> rows;
  KernelSelection().each([&](const std::string& op, kernels::Level) {
    const auto row = [&](const std::optional<std::string>& module) {
      Row levels;
      for (const Column& column : columns) levels.push_back(column.level(op, module));
      return levels;
    };
    const std::vector<std::string> modules = modules_with(op, columns);
    if (modules.empty()) return;
    const Row together = row(std::nullopt);
    if (std::find(together.begin(), together.end(), "") == together.end()) {
      rows.emplace_back(op, together);
      return;
    }
    for (const std::string& module : modules) {
      rows.emplace_back(module.empty() ? op : op + " (" + module + ")", row(module));
    }
  });
  return rows;
}

std::string padded(std::string_view text, size_t width) {
  std::string result(text);
  result.resize(std::max(width, text.size() + 1), ' ');
  return result;
}

}  // namespace

std::string level_table(const KernelsConfig& config, const std::vector<Module>& modules) {
  constexpr size_t kWidth = 16;
  const std::vector<Column> columns = columns_of(config, modules);
  const std::vector<std::pair<std::string, Row>> rows = rows_of(columns);
  size_t labels = 22;
  for (const auto& [label, levels] : rows) labels = std::max(labels, label.size() + 2);
  std::string text = padded("op", labels);
  for (const Column& column : columns) text += padded(column.title, kWidth);
  for (const auto& [label, levels] : rows) {
    text += "\n" + padded(label, labels);
    for (const std::string_view level : levels) text += padded(level, kWidth);
  }
  return text + "\n";
}

}  // namespace strata::modules
