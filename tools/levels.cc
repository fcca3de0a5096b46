// SPDX-License-Identifier: MIT
// levels [--json]: prints which op exists at which level, read from the kernel tables: a Markdown table, or one JSON
// object per op, level and device.
#include "kernels/levels.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/runtime/level.h"

namespace {

using strata::kernels::kLevelNames;
using strata::kernels::LevelRow;

// Returns "CPU, GPU", "CPU", "GPU", or "-" if the slot is empty.
std::string cell(const std::vector<LevelRow>& matrix, std::string_view op, size_t level) {
  std::string text;
  for (const LevelRow& row : matrix) {
    if (row.op != op || static_cast<size_t>(row.level) != level || !row.forward) continue;
    text += (text.empty() ? "" : ", ") + std::string(row.device == c10::DeviceType::CPU ? "CPU" : "GPU");
  }
  return text.empty() ? "-" : text;
}

void print_json(const std::vector<LevelRow>& matrix) {
  for (const LevelRow& row : matrix) {
    nlohmann::ordered_json line = {{"op", row.op},
                                   {"level", name(row.level)},
                                   {"device", row.device == c10::DeviceType::CPU ? "cpu" : "cuda"},
                                   {"forward", row.forward},
                                   {"backward", row.backward}};
    if (!row.reason.empty()) line["reason"] = row.reason;
    std::printf("%s\n", line.dump().c_str());
  }
}

void print_table(const std::vector<LevelRow>& matrix) {
  std::string head = "| op |", line = "| --- |";
  for (const std::string_view level : kLevelNames) {
    head += " " + std::string(level) + " |";
    line += " --- |";
  }
  std::printf("%s\n%s\n", head.c_str(), line.c_str());
  std::string_view last;
  for (const LevelRow& row : matrix) {  // the rows of an op are consecutive
    if (row.op == last) continue;
    last = row.op;
    std::string cells;
    for (size_t level = 0; level < kLevelNames.size(); ++level) cells += " " + cell(matrix, row.op, level) + " |";
    std::printf("| %s |%s\n", std::string(row.op).c_str(), cells.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::string(argv[1]) == "--json";
  if (argc > 1 && !json) {
    std::fprintf(stderr, "levels: expected nothing or --json\n");
    return 2;
  }
  const std::vector<LevelRow> matrix = strata::kernels::level_matrix();
  json ? print_json(matrix) : print_table(matrix);
  return 0;
}
