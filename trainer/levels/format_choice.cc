// SPDX-License-Identifier: MIT
#include "trainer/levels/format_choice.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/joined.h"
#include "base/text/padded.h"
#include "modules/config/module_name.h"

namespace strata::trainer {
namespace {

using kernels::LinearShape;
using modules::DeclaredModule;
using modules::LinearFormatsConfig;

// Returns the shape at which the module is timed: the one with the most rows, if a step calls it with several.
const LinearShape& shape_of(const DeclaredModule& module, const std::vector<LinearShape>& shapes) {
  const modules::DeclaredLinear& product = module.product.value();
  const LinearShape* found = nullptr;
  for (const LinearShape& shape : shapes) {
    if (shape.inputs != product.inputs || shape.outputs != product.outputs || shape.bias != product.has_bias ||
        shape.activation != product.activation) {
      continue;
    }
    if (found == nullptr || shape.rows > found->rows) found = &shape;
  }
  if (found == nullptr) {
    throw Error(ExitCode::internal, "the traced step has no product of " + std::to_string(product.inputs) +
                                        " inputs and " + std::to_string(product.outputs) + " outputs, which " +
                                        module.name + " declares");
  }
  return *found;
}

std::string microseconds(double time) { return formatted("%.1f", time); }

}  // namespace

bool is_multiplied(const LinearFormatsConfig& formats) {
  return formats.format == modules::LinearFormat::fp8 && formats.scaling != modules::LinearScaling::block;
}

std::vector<FormatRow> time_formats(const LinearFormatsConfig& formats, const std::vector<DeclaredModule>& modules,
                                    const std::vector<LinearShape>& shapes, const TimeLinear& time) {
  std::vector<std::pair<LinearShape, std::vector<std::string>>> same;
  std::map<std::string, size_t, std::less<>> shapes_of_name;  // how many a name in a layer has
  for (const DeclaredModule& module : modules) {
    if (!formats.of(module)) continue;
    const LinearShape& shape = shape_of(module, shapes);
    auto found = std::ranges::find(same, shape, [](const auto& each) { return each.first; });
    if (found == same.end()) found = same.insert(same.end(), {shape, {}});
    const auto named = [&](const std::string& name) {
      return modules::name_in_layer(name) == modules::name_in_layer(module.name);
    };
    if (std::ranges::none_of(found->second, named)) ++shapes_of_name[std::string(modules::name_in_layer(module.name))];
    found->second.push_back(module.name);
  }
  std::vector<FormatRow> rows;
  for (const auto& [shape, names] : same) {
    const LinearTimes format_times = time(names.front(), shape, /*uses_format=*/true);
    const LinearTimes compute_times = time(names.front(), shape, /*uses_format=*/false);
    FormatRow row{.shape = shape.text(), .layers = static_cast<int64_t>(names.size())};
    row.forward = format_times.forward, row.backward = format_times.backward;
    row.compute_forward = compute_times.forward, row.compute_backward = compute_times.backward;
    for (const std::string& name : names) {
      const std::string layer_module(modules::name_in_layer(name));
      const std::string& said = shapes_of_name.at(layer_module) == 1 ? layer_module : name;
      if (std::ranges::find(row.modules, said) == row.modules.end()) row.modules.push_back(said);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> kept_modules(const std::vector<FormatRow>& rows) {
  std::vector<std::string> kept;
  for (const FormatRow& row : rows) {
    if (!row.wins()) kept.insert(kept.end(), row.modules.begin(), row.modules.end());
  }
  return kept;
}

double gained_microseconds(const std::vector<FormatRow>& rows) {
  double gained = 0;
  for (const FormatRow& row : rows) {
    if (row.wins()) gained += static_cast<double>(row.layers) * (row.compute_time() - row.format_time());
  }
  return gained;
}

std::string format_choice_table(const LinearFormatsConfig& formats, const std::string& compute,
                                const std::vector<FormatRow>& rows) {
  size_t names = 8, shapes = 7;
  const auto label = [](const FormatRow& row) { return joined(row.modules, ", "); };
  for (const FormatRow& row : rows) {
    names = std::max(names, label(row).size() + 2);
    shapes = std::max(shapes, row.shape.size() + 2);
  }
  const std::string format = formats.text();
  const size_t times = std::max({format.size(), compute.size(), size_t{8}}) + 2;
  std::string text = "microseconds of a forward and a backward, with the kernels that make operands\n";
  text += padded("module", names) + padded("shape", shapes) + padded("layers", 8) + padded(format, times) +
          padded(compute, times) + "verdict\n";
  for (const FormatRow& row : rows) {
    text += padded(label(row), names) + padded(row.shape, shapes) + padded(std::to_string(row.layers), 8) +
            padded(microseconds(row.format_time()), times) + padded(microseconds(row.compute_time()), times) +
            (row.wins() ? format : "stays in " + compute + ": not faster in " + format) + "\n";
  }
  return text;
}

}  // namespace strata::trainer
