// SPDX-License-Identifier: MIT
// levels [--json | --gpus | --page]: prints which op exists at which level, read from the kernel tables: a Markdown
// table, or one JSON object per op, level and device. --gpus prints a table of which GPU runs which level, and --page
// the page docs/levels.md, which has both tables, and the keys of `kernels:` that cover several ops.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"
#include "kernels/runtime/level.h"
#include "tools/programs.h"

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
    if (row.forward && row.device == c10::DeviceType::CUDA) line["compute_capability"] = to_text(row.gpus);
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

struct Boards {
  const char* names;
  int capability;
  const char* state;
};
constexpr const char* kNotRun = "compiled, not run";
constexpr Boards kBoards[] = {
    {"T4, RTX 2080", 75, kNotRun},   {"A100", 80, kNotRun},      {"A10, RTX 3090", 86, kNotRun},
    {"L40S, RTX 4090", 89, kNotRun}, {"H100, H200", 90, "run"},  {"B200", 100, kNotRun},
    {"B300", 103, kNotRun},          {"RTX 5090", 120, kNotRun},
};

// Returns which of the ops that have the level have it on the GPU: "all", "all but attention", "attention, rotary",
// "-".
std::string ops_with(const std::vector<LevelRow>& matrix, size_t level, int capability) {
  std::string with, without;
  for (const LevelRow& row : matrix) {
    if (static_cast<size_t>(row.level) != level || row.device != c10::DeviceType::CUDA || !row.forward) continue;
    std::string& ops = row.gpus.has(capability) ? with : without;
    ops += (ops.empty() ? "" : ", ") + std::string(row.op);
  }
  if (without.empty()) return "all";
  if (with.empty()) return "-";
  return with.size() < without.size() ? with : "all but " + without;
}

void print_gpus(const std::vector<LevelRow>& matrix) {
  std::string head = "| GPUs | compute capability |", line = "| --- | --- |";
  for (const std::string_view level : kLevelNames) {
    head += " " + std::string(level) + " |";
    line += " --- |";
  }
  std::printf("%s state |\n%s --- |\n", head.c_str(), line.c_str());
  for (const Boards& boards : kBoards) {
    std::string cells;
    for (size_t level = 0; level < kLevelNames.size(); ++level) {
      cells += " " + ops_with(matrix, level, boards.capability) + " |";
    }
    std::printf("| %s | %d.%d |%s %s |\n", boards.names, boards.capability / 10, boards.capability % 10, cells.c_str(),
                boards.state);
  }
}

// The table of the keys of `kernels:` that cover more ops than the one of their name. The shape of an op has its key.
void print_keys() {
  std::map<std::string_view, std::string> covered;
  for (const strata::kernels::OpProof& proof : strata::kernels::op_proofs()) {
    for (const strata::kernels::OpShape& shape : proof.small_shapes) {
      std::string& ops = covered[shape.key()];
      const std::string op = "`" + std::string(shape.op()) + "`";
      if (shape.op() != shape.key() && ops.find(op) == std::string::npos) ops += (ops.empty() ? "" : ", ") + op;
    }
  }
  std::printf("| key | covers also |\n| --- | --- |\n");
  for (const auto& [key, ops] : covered) {
    if (!ops.empty()) std::printf("| `%s` | %s |\n", std::string(key).c_str(), ops.c_str());
  }
}

void print_page(const std::vector<LevelRow>& matrix) {
  std::printf("# Which ops and GPUs have which levels\n\n");
  std::printf("`tools/strata levels --page` prints this page, and [kernels.md](kernels.md) explains it.\n\n## Ops\n\n");
  print_table(matrix);
  std::printf("\n## Keys\n\nA key of `kernels:` is the name of an op. Some keys cover several ops:\n\n");
  print_keys();
  std::printf("\n## GPUs\n\n");
  print_gpus(matrix);
}

}  // namespace

int strata::programs::levels_main(int argc, char** argv) {
  const std::string option = argc == 2 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && option != "--json" && option != "--gpus" && option != "--page")) {
    std::fprintf(stderr, "levels: expected nothing, --json, --gpus or --page\n");
    return 2;
  }
  const std::vector<LevelRow> matrix = strata::kernels::level_matrix();
  const auto print = option == "--json"   ? print_json
                     : option == "--gpus" ? print_gpus
                     : option == "--page" ? print_page
                                          : print_table;
  print(matrix);
  return 0;
}
