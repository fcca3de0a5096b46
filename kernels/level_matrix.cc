// SPDX-License-Identifier: MIT
#include "kernels/level_matrix.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <type_traits>

#include "kernels/op_gpus.h"
#include "kernels/op_list.h"

namespace strata::kernels {
namespace {

// The GPUs on which the code of a level of an op runs, if the op has the level.
GpuRange gpus_of(std::string_view folder, Level level) {
  const auto row =
      std::find_if(kGpusOfOps.begin(), kGpusOfOps.end(), [&](const OpGpus& each) { return each.folder == folder; });
  TORCH_CHECK(row != kGpusOfOps.end(), "kernels/op_gpus.h has no row of ", folder);
  switch (level) {
    case Level::aten:
    case Level::torchscript:
      return kEveryGpu;
    case Level::aot_inductor:
      return kGpusOfPackages;
    case Level::triton:
      return row->triton;
    case Level::cuda:
      return row->cuda;
  }
  return kEveryGpu;  // unreachable: the switch is complete
}

template <class Op>
LevelRow row(const KernelTable<Op>& table, std::string_view folder, Level level, c10::DeviceType device) {
  constexpr bool kDifferentiable = !std::is_same_v<typename Op::Backward, NotDifferentiable>;
  const std::string_view reason = table.why_absent(level, device);
  LevelRow row{Op::kName, level, device, reason.empty(), reason.empty() && kDifferentiable, std::string(reason)};
  if (row.forward && !kDifferentiable) row.reason = "this op is not differentiated";
  if (device == c10::kCUDA) row.gpus = gpus_of(folder, level);
  return row;
}

// Returns the levels of `rows`, which are of one op and device, that have a kernel for the GPU.
std::vector<std::string> levels_on(const std::vector<LevelRow>& rows, const Gpu& gpu) {
  std::vector<std::string> levels;
  for (const LevelRow& row : rows) {
    if (row.forward && row.gpus.has(gpu.capability)) levels.emplace_back(name(row.level));
  }
  return levels;
}

// Returns "" if the row's level runs on the GPU, otherwise why not.
std::string why_not(const LevelRow& row, const Gpu& gpu) {
  const std::string op(row.op), level(name(row.level));
  if (!row.forward) return op + " has no kernel at level " + level + " on cuda (" + row.reason + ")";
  const std::string problem = why_not_on_gpu(row.gpus, gpu);
  return problem.empty() ? "" : op + " at level " + level + " " + problem;
}

// `key` is where the level was written.
std::string with_advice(std::string problem, const std::vector<std::string>& levels, std::string_view key) {
  problem += "; levels there: ";
  for (const std::string& level : levels) problem += (level == levels.front() ? "" : ", ") + level;
  const size_t dot = key.rfind('.');
  return problem + "; write " + std::string(dot == key.npos ? key : key.substr(dot + 1)) + ": " + levels.front();
}

}  // namespace

std::vector<LevelRow> level_matrix() {
  std::vector<LevelRow> rows;
  for_each_table([&](const auto& table, std::string_view folder) {
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) rows.push_back(row(table, folder, Level(i), device));
    }
  });
  return rows;
}

Target target_of(c10::Device device) {
  if (!device.is_cuda() || !device.has_index()) return {device.type()};
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device.index());
  const int capability = 10 * gpu.major + gpu.minor, chosen = chosen_capability(capability);
  return {device.type(), Gpu{gpu.name + std::string(chosen < capability ? " with kernels.architecture" : ""), chosen}};
}

bool has_level(std::string_view op, Level level, const Target& target) {
  for (const LevelRow& row : level_matrix()) {
    if (row.op != op || row.level != level || row.device != target.type) continue;
    return row.forward && (!target.gpu || row.gpus.has(target.gpu->capability));
  }
  return false;
}

void require_level(std::string_view where, std::string_view op, Level level, const Target& target) {
  std::string names;
  bool found = false;
  for_each_table([&]<class Op>(const KernelTable<Op>& table, std::string_view folder) {
    names += (names.empty() ? "" : ", ") + std::string(Op::kName);
    if (Op::kName != op) return;
    found = true;
    std::string problem;
    if (target.gpu) {
      std::vector<LevelRow> rows;
      for (size_t i = 0; i < kLevelNames.size(); ++i) rows.push_back(row(table, folder, Level(i), target.type));
      problem = why_not(rows[static_cast<size_t>(level)], *target.gpu);
      if (!problem.empty()) problem = with_advice(problem, levels_on(rows, *target.gpu), where);
    } else {
      problem = table.why_not(level, target.type);
    }
    TORCH_CHECK_VALUE(problem.empty(), where, ": ", problem);
  });
  TORCH_CHECK_VALUE(found, where, ": there is no op ", op, "; ops: ", names);
}

}  // namespace strata::kernels
