// SPDX-License-Identifier: MIT
#include "modules/config/level_report.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "base/text/padded.h"
#include "base/text/word_of.h"
#include "kernels/linear/fp8_products.h"
#include "kernels/sparsity/sparse_products.h"
#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

// The level of one op in one module, or its number format or sparsity. `module` is its name within the layer.
struct Cell {
  std::string op, module, level;

  bool operator==(const Cell&) const = default;
};

constexpr std::string_view kNothing = "-";

struct Column {
  std::string title;
  std::vector<Cell> cells;

  // Returns kNothing if the op is not computed here, and an empty text if it has several levels.
  std::string_view level(const std::string& op, const std::optional<std::string>& module) const {
    std::string_view found = kNothing;
    for (const Cell& cell : cells) {
      if (cell.op != op || (module && cell.module != *module)) continue;
      if (found != kNothing && found != cell.level) return "";
      found = cell.level;
    }
    return found;
  }
};

// Adds the cells of one module.
using AddCells = std::function<void(const DeclaredModule& module, std::vector<Cell>& cells)>;

std::vector<Column> columns_of(const std::vector<DeclaredModule>& modules, const AddCells& add) {
  Column root{"root", {}};
  std::map<int64_t, std::vector<Cell>> layers;
  for (const DeclaredModule& module : modules) {
    const std::optional<int64_t> layer = layer_of(module.name);
    add(module, layer ? layers[*layer] : root.cells);
  }
  std::vector<Column> columns = {root};
  for (auto next = layers.begin(); next != layers.end();) {
    const auto first = next;
    configs::Range range{first->first, first->first};
    for (; next != layers.end() && next->second == first->second; ++next) range.last = next->first;
    columns.push_back({"layers " + to_text(range), first->second});
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
std::vector<std::pair<std::string, Row>> rows_of(const std::vector<std::string>& ops,
                                                 const std::vector<Column>& columns) {
  std::vector<std::pair<std::string, Row>> rows;
  for (const std::string& op : ops) {
    const auto row = [&](const std::optional<std::string>& module) {
      Row levels;
      for (const Column& column : columns) levels.push_back(column.level(op, module));
      return levels;
    };
    const std::vector<std::string> modules = modules_with(op, columns);
    if (modules.empty()) continue;
    const Row together = row(std::nullopt);
    if (std::find(together.begin(), together.end(), "") == together.end()) {
      rows.emplace_back(op, together);
      continue;
    }
    for (const std::string& module : modules) {
      rows.emplace_back(module.empty() ? op : op + " (" + module + ")", row(module));
    }
  }
  return rows;
}

std::string table_of(const std::string& title, const std::vector<std::string>& ops,
                     const std::vector<Column>& columns) {
  const std::vector<std::pair<std::string, Row>> rows = rows_of(ops, columns);
  size_t labels = 22, width = 16;
  for (const auto& [label, levels] : rows) {
    labels = std::max(labels, label.size() + 2);
    for (const std::string_view level : levels) width = std::max(width, level.size() + 2);
  }
  std::string text = padded(title, labels);
  for (const Column& column : columns) text += padded(column.title, width);
  for (const auto& [label, levels] : rows) {
    text += "\n" + padded(label, labels);
    for (const std::string_view level : levels) text += padded(std::string(level), width);
  }
  return text + "\n";
}

// Returns why blocks are not multiplied at level cuda, or "" if `gpu` has such products.
std::string why_not_in_blocks(const std::optional<kernels::Gpu>& gpu) {
  if (!gpu) return "runs on GPUs of compute capability " + to_text(kernels::kBlockScaled) + "; emulated on others";
  const std::string reason = why_not_on_gpu(kernels::kBlockScaled, *gpu);
  return reason.empty() ? "" : reason + "; emulated instead";
}

}  // namespace

std::string level_table(const KernelsConfig& config, const std::vector<DeclaredModule>& modules) {
  std::vector<std::string> ops;
  KernelSelection().each([&](const std::string& op, kernels::Level) { ops.push_back(op); });
  const auto add = [&](const DeclaredModule& module, std::vector<Cell>& cells) {
    for (const std::string_view op : module.ops) {
      const std::string_view level = kernels::name(level_for(config, module.name, op));
      cells.push_back({std::string(op), std::string(name_in_layer(module.name)), std::string(level)});
    }
  };
  return table_of("op", ops, columns_of(modules, add));
}

std::string format_table(const KernelsConfig& config, const LinearFormatsConfig& formats,
                         const std::vector<DeclaredModule>& modules, const std::optional<kernels::Gpu>& gpu) {
  const std::string problem = why_not_in_blocks(gpu);
  std::string last_line;
  const auto to_text = [&](const DeclaredModule& module) -> std::string {
    const auto module_format = formats.of(module);
    if (!module_format) return "none";
    const DeclaredLinear& product = module.product.value();
    const kernels::Level level = level_for(config, module.name, "linear");
    const bool in_blocks = kernels::multiplies_in_blocks(*module_format, level, product.inputs, product.outputs);
    if (in_blocks && !problem.empty()) last_line = formats.text() + " at level cuda " + problem + "\n";
    const bool in_codes = kernels::multiplies_in_fp8(*module_format, level, product.inputs, product.outputs) ||
                          (in_blocks && problem.empty());
    return formats.text() + (in_codes ? "" : " (emulated)");
  };
  const auto has_format = [&](const DeclaredModule& module) { return formats.of(module).has_value(); };
  if (std::ranges::none_of(modules, has_format)) return "";
  const auto add = [&](const DeclaredModule& module, std::vector<Cell>& cells) {
    if (module.product) cells.push_back({"linear", std::string(name_in_layer(module.name)), to_text(module)});
  };
  const std::string table = table_of("number format", {"linear"}, columns_of(modules, add));
  return table + last_line;
}

std::string sparsity_table(const KernelsConfig& config, const SparsityConfig& sparsity,
                           const std::vector<DeclaredModule>& modules,
                           const std::function<bool(const std::string& group)>& in_bfloat16) {
  if (pruned_weights(sparsity, modules).empty()) return "";
  const std::string from = sparsity.from_step == 1 ? "" : " from step " + std::to_string(sparsity.from_step);
  std::vector<std::string> reasons;
  bool any_sparse = false;
  const auto format_text = [&](const DeclaredModule& module) -> std::string {
    if (!sparsity.prunes(module.name)) return "none";
    const auto& [outputs, inputs, has_bias, activation] = module.product.value();
    const std::string name(name_in_layer(module.name));
    const kernels::Level level = level_for(config, module.name, "linear");
    const std::string reason = kernels::why_not_sparse(level, in_bfloat16(module.group), inputs, outputs, name);
    if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
    const std::string pattern = word_of(sparsity.pattern) + from;
    if (!reason.empty()) return pattern + " (emulated)";
    any_sparse = true;
    return sparsity.mask == kernels::PruneMask::transposable ? pattern : pattern + " (backward emulated)";
  };
  const auto add = [&](const DeclaredModule& module, std::vector<Cell>& cells) {
    if (module.product) cells.push_back({"linear", std::string(name_in_layer(module.name)), format_text(module)});
  };
  std::string table = table_of("sparsity", {"linear"}, columns_of(modules, add));
  for (const std::string& reason : reasons) table += "emulated, because " + reason + "\n";
  if (any_sparse) {
    table += "products of fewer than " + std::to_string(kernels::kFewestSparseRows) + " rows multiply with the zeros\n";
  }
  return table;
}

}  // namespace strata::modules
