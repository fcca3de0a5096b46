// SPDX-License-Identifier: MIT
// Prints which op exists at which level, from the kernel tables themselves.
#include "kernels/levels.h"

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/level.h"

namespace {

using strata::kernels::LevelRow;

// "CPU, GPU", "CPU (forward)", "-"
std::string cell(const std::vector<const LevelRow*>& rows) {
  std::string text;
  for (const LevelRow* row : rows) {
    if (!row->forward && !row->backward) continue;
    text += (text.empty() ? "" : ", ") + std::string(row->device == c10::DeviceType::CPU ? "CPU" : "GPU");
    if (!row->backward) text += " (forward)";
  }
  return text.empty() ? "-" : text;
}

}  // namespace

int main() {
  const std::vector<LevelRow> matrix = strata::kernels::level_matrix();
  std::vector<std::string_view> ops;
  std::map<std::string_view, std::vector<std::vector<const LevelRow*>>> rows;
  std::set<std::string> reasons;
  for (const LevelRow& row : matrix) {
    auto& levels = rows[row.op];
    if (levels.empty()) {
      ops.push_back(row.op);
      levels.resize(strata::kernels::kLevelNames.size());
    }
    levels[static_cast<size_t>(row.level)].push_back(&row);
    if (!row.reason.empty()) reasons.insert(row.reason);
  }
  std::printf("| op |");
  for (const std::string_view level : strata::kernels::kLevelNames)
    std::printf(" %.*s |", int(level.size()), level.data());
  std::printf("\n|%s\n", " --- | --- | --- | --- | --- | --- |");
  for (const std::string_view op : ops) {
    std::printf("| %.*s |", int(op.size()), op.data());
    for (const auto& levels : rows[op]) std::printf(" %s |", cell(levels).c_str());
    std::printf("\n");
  }
  std::printf("\nReasons for what is missing:\n");
  for (const std::string& reason : reasons) std::printf("- %s\n", reason.c_str());
}
