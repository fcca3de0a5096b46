// SPDX-License-Identifier: MIT
// The level matrix: for every op, level and device, whether a kernel exists and if not, why, and on which GPUs it runs.
// It is read from the kernel tables, and the GPUs from the code that the ops link.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/gpus.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

struct LevelRow {
  std::string_view op;
  Level level;
  c10::DeviceType device;  // kCPU or kCUDA
  bool forward, backward;
  std::string reason;  // why forward or backward is false
  GpuRange gpus = {};  // the GPUs on which the code runs
};

// Returns one row per op, level and device: ops in the order of kernels/op.bzl, levels in the order of kLevelNames, CPU
// first.
std::vector<LevelRow> level_matrix();

// The device for which levels are chosen. Without a GPU it is any device of its type: a configuration may be checked on
// another machine than the run has.
struct Target {
  c10::DeviceType type;
  std::optional<Gpu> gpu = {};
};

// Asks CUDA about the GPU if `device` has an index. Its capability is the one that code is chosen for.
Target target_of(c10::Device device);

// True if `op` has a kernel at `level` that runs on `target`.
bool has_level(std::string_view op, Level level, const Target& target);

// Throws a ValueError that begins with `where`, a key of YAML, if `op` has no kernel at `level` on `target`. The
// message lists the levels that exist, the GPUs that have this level (if target.gpu is set), and what to write at the
// key.
void require_level(std::string_view where, std::string_view op, Level level, const Target& target);

}  // namespace strata::kernels
