// SPDX-License-Identifier: MIT
// Formats measurements of modules as lines of a table, as JSON, and as bars of a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/modules/module_measurement.h"
#include "tools/bench/svg.h"

namespace strata::tools {

inline constexpr const char* kPlain = "plain PyTorch";

// A module at one level.
struct ModuleRow {
  std::string module, config;
  std::vector<int64_t> input;  // sizes of x
  std::string level;           // "cuda", "best", or kPlain
  ModuleMeasurement measured;
};

// What a row was measured on and with.
struct ModuleOrigin {
  std::string device, torch, dtype;
};

// Returns the two lines above the rows of the table.
std::string table_head();

// `plain` is the row of plain PyTorch, which has times.
std::string table_line(const ModuleRow& row, const ModuleRow& plain);

std::string json_line(const ModuleRow& row, const ModuleOrigin& origin);

// Returns bars for the times, the peak and the energy of each module, one per level. The bar with the least has the
// whole length.
std::string picture(const std::vector<ModuleRow>& rows, const ModuleOrigin& origin);

}  // namespace strata::tools
