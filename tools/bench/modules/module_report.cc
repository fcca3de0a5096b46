// SPDX-License-Identifier: MIT
#include "tools/bench/modules/module_report.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/quantile.h"
#include "base/text/formatted.h"
#include "kernels/runtime/op_shape.h"

namespace strata::tools {
namespace {

constexpr const char* kLine = "| %-17s | %-13s | %-29s | %-29s | %12s | %7s | %11s | %7s | %s |\n";

std::string interval(const std::vector<double>& seconds) {
  const auto milliseconds = [&](double share) { return 1e3 * quantile(seconds, share); };
  return formatted("%.3f (%.3f to %.3f)", milliseconds(0.5), milliseconds(0.1), milliseconds(0.9));
}

double both_directions(const ModuleTimes& times) { return median(times.forward) + median(times.backward); }

std::string launches(const ModuleTimes& times) {
  if (!times.forward_launches || !times.backward_launches) return "-";
  return std::to_string(*times.forward_launches) + " + " + std::to_string(*times.backward_launches);
}

// Returns the ops that run at another level: "attention at aten".
std::string other_levels(const ModuleRow& row) {
  std::string text;
  for (const auto& [op, op_level] : row.measured.levels) {
    if (op_level != row.level) text += (text.empty() ? "" : ", ") + op + " at " + op_level;
  }
  return text;
}

template <class Value>
nlohmann::ordered_json number_or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// An amount of a row that a picture has a bar for. Less is better.
struct Amount {
  const char* name;
  std::string unit;
  std::function<std::optional<double>(const ModuleTimes&)> of;
};

const std::vector<Amount>& amounts() {
  static const std::vector<Amount> all = {
      {"forward", " ms", [](const ModuleTimes& times) { return 1e3 * median(times.forward); }},
      {"backward", " ms", [](const ModuleTimes& times) { return 1e3 * median(times.backward); }},
      {"peak", " MB", [](const ModuleTimes& times) { return 1e-6 * static_cast<double>(times.peak_bytes); }},
      {"launches", "",
       [](const ModuleTimes& times) -> std::optional<double> {
         if (!times.forward_launches || !times.backward_launches) return std::nullopt;
         return static_cast<double>(*times.forward_launches + *times.backward_launches);
       }},
      {"energy", " mJ", [](const ModuleTimes& times) -> std::optional<double> {
         return times.joules ? std::optional(1e3 * *times.joules) : std::nullopt;
       }}};
  return all;
}

// Adds the bars of an amount for the rows of one module.
void add_bars(const std::vector<ModuleRow>& rows, const Amount& amount, std::vector<Bar>& bars) {
  std::vector<std::pair<const ModuleRow*, double>> found;
  for (const ModuleRow& row : rows) {
    if (!row.measured.times) continue;
    if (const std::optional<double> value = amount.of(*row.measured.times)) found.emplace_back(&row, *value);
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [row, value] : found) least = std::min(least, value);
  for (const auto& [row, value] : found) {
    bars.push_back({row->module + " " + amount.name + "  " + kernels::sizes_text(row->input), row->level,
                    formatted("%.4g%s", value, amount.unit.c_str()), least / value});
  }
}

}  // namespace

std::string table_head() {
  return formatted(kLine, "module", "level", "forward", "backward", "plain / this", "peak MB", "launches", "mJ",
                   "ops at other levels") +
         formatted(kLine, "---", "---", "---", "---", "---", "---", "---", "---", "---");
}

std::string table_line(const ModuleRow& row, const ModuleRow& plain) {
  if (!row.measured.times) {
    const std::string why = "not timed: " + row.measured.verdict.words;
    return formatted(kLine, row.module.c_str(), row.level.c_str(), "-", "-", "-", "-", "-", "-", why.c_str());
  }
  const ModuleTimes& times = *row.measured.times;
  const std::string energy = times.joules ? formatted("%.1f", 1e3 * *times.joules) : "-";
  return formatted(kLine, row.module.c_str(), row.level.c_str(), interval(times.forward).c_str(),
                   interval(times.backward).c_str(),
                   formatted("%.2f", both_directions(*plain.measured.times) / both_directions(times)).c_str(),
                   formatted("%.1f", 1e-6 * static_cast<double>(times.peak_bytes)).c_str(), launches(times).c_str(),
                   energy.c_str(), other_levels(row).c_str());
}

std::string json_line(const ModuleRow& row, const ModuleOrigin& origin) {
  nlohmann::ordered_json json = {
      {"module", row.module}, {"config", row.config}, {"input", row.input}, {"level", row.level}};
  if (!row.measured.levels.empty()) json["levels"] = row.measured.levels;
  if (row.measured.times) {
    const ModuleTimes& times = *row.measured.times;
    for (const auto& [direction, seconds] : {std::pair{"forward", &times.forward}, {"backward", &times.backward}}) {
      for (const auto& [name, share] : {std::pair{"", 0.5}, {"_p10", 0.1}, {"_p90", 0.9}}) {
        json[std::string(direction) + "_milliseconds" + name] = 1e3 * quantile(*seconds, share);
      }
    }
    json["peak_bytes"] = times.peak_bytes;
    json["forward_launches"] = number_or_null(times.forward_launches);
    json["backward_launches"] = number_or_null(times.backward_launches);
    json["joules"] = number_or_null(times.joules);
    json["sets"] = times.sets;
    json["error"] = row.measured.verdict.share;
  } else {
    json["not_timed"] = row.measured.verdict.words;
  }
  json["dtype"] = origin.dtype, json["device"] = origin.device, json["torch"] = origin.torch;
  return json.dump() + "\n";
}

std::string picture(const std::vector<ModuleRow>& rows, const ModuleOrigin& origin) {
  std::vector<Bar> bars;
  for (auto first = rows.begin(); first != rows.end();) {
    const auto end = std::find_if(first, rows.end(), [&](const ModuleRow& row) { return row.module != first->module; });
    for (const Amount& amount : amounts()) add_bars({first, end}, amount, bars);
    first = end;
  }
  return svg("Modules at each level on " + origin.device + ", torch " + origin.torch + ", " + origin.dtype,
             "a bar is the least of all levels as a share of this level's; the line is all of it, so longer is better",
             bars);
}

}  // namespace strata::tools
