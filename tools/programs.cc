// SPDX-License-Identifier: MIT
// The executable of many programs. `export`, `generate` and the others are links to it, and the last part of the path
// that it is started by says which of them runs.
#include "tools/programs.h"

#include <array>
#include <iostream>
#include <string_view>

#include "base/end_process.h"

namespace {

struct Program {
  std::string_view name;
  int (*main)(int count, char** arguments);
};

#define STRATA_ROW(name) Program{#name, strata::programs::name##_main},
constexpr std::array kPrograms{STRATA_PROGRAMS(STRATA_ROW)};
#undef STRATA_ROW

}  // namespace

int main(int count, char** arguments) {
  const std::string_view path = count > 0 ? arguments[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const Program& program : kPrograms) {
    if (program.name == name) strata::end_process(program.main(count, arguments));
  }
  std::cerr << "there is no program '" << name << "'; start this file by a link with one of these names:";
  for (const Program& program : kPrograms) std::cerr << " " << program.name;
  std::cerr << "\n";
  return 2;
}
