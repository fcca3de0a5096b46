// SPDX-License-Identifier: MIT
// Prints which op exists at which level, as a table in Markdown, from the kernel tables themselves.
#include "kernels/levels.h"

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/level.h"

namespace {

using strata::kernels::kLevelNames;
using strata::kernels::LevelRow;

// "CPU, GPU", or "-" where the slot is empty.
std::string cell(const std::vector<LevelRow>& matrix, std::string_view op, size_t level) {
  std::string text;
  for (const LevelRow& row : matrix) {
    if (row.op != op || static_cast<size_t>(row.level) != level || !row.forward) continue;
    text += (text.empty() ? "" : ", ") + std::string(row.device == c10::DeviceType::CPU ? "CPU" : "GPU");
  }
  return text.empty() ? "-" : text;
}

}  // namespace

int main() {
  const std::vector<LevelRow> matrix = strata::kernels::level_matrix();
  std::string head = "| op |", line = "| --- |";
  for (const std::string_view level : kLevelNames) {
    head += " " + std::string(level) + " |";
    line += " --- |";
  }
  std::printf("%s\n%s\n", head.c_str(), line.c_str());
  std::string_view last;
  for (const LevelRow& row : matrix) {  // the rows of an op stand together
    if (row.op == last) continue;
    last = row.op;
    std::string cells;
    for (size_t level = 0; level < kLevelNames.size(); ++level) cells += " " + cell(matrix, row.op, level) + " |";
    std::printf("| %s |%s\n", std::string(row.op).c_str(), cells.c_str());
  }
}
