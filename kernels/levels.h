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

// Returns "" if code of `level` runs on `device`, otherwise a sentence that says why not. A `device` without an index
// stands for any device of its type: a configuration may be checked on another machine than that of the run.
std::string why_not_on(Level level, c10::Device device);

// Throws a ValueError that begins with `where` (a layer or a YAML key) if `op` has no kernel at `level` on `device`, or
// if the code of `level` does not run on it.
void require_level(std::string_view where, std::string_view op, Level level, c10::Device device);

}  // namespace strata::kernels
