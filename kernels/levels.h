// SPDX-License-Identifier: MIT
// The level matrix: for every op, level and device, whether a kernel exists and if not, why. It is read from the kernel
// tables.
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
  std::string reason;  // why forward or backward is false
};

// Returns one row per op, level and device: ops in the order of kernels/op.bzl, levels in the order of kLevelNames, CPU
// first.
std::vector<LevelRow> level_matrix();

// Throws a ValueError that begins with `where` (a layer or a YAML key) if `op` has no kernel at `level` on `device`, or
// if this machine has a GPU that the code of `level` is not compiled for.
void require_level(std::string_view where, std::string_view op, Level level, c10::DeviceType device);

}  // namespace strata::kernels
