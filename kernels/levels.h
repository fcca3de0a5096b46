// SPDX-License-Identifier: MIT
// Every op of Strata with its levels, read from the kernel tables: what exists, what does not, and why.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/level.h"

namespace strata::kernels {

struct LevelRow {
  std::string_view op;
  Level level;
  c10::DeviceType device;  // kCPU or kCUDA
  bool forward, backward;
  std::string reason;  // where forward or backward is false
};

// One row per op, level and device, in the order of the op list and of kLevelNames, CPU first.
std::vector<LevelRow> level_matrix();

// Throws, with `where` (a layer, a key of the YAML) in front, when `op` cannot be asked for at `level` on `device`.
void require_level(std::string_view where, std::string_view op, Level level, c10::DeviceType device);

}  // namespace strata::kernels
