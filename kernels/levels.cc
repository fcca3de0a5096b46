// SPDX-License-Identifier: MIT
#include "kernels/levels.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>

#include <type_traits>

#include "kernels/op_list.h"
#include "kernels/runtime/gpu_architecture.h"

namespace strata::kernels {
namespace {

template <class Op>
LevelRow row(const KernelTable<Op>& table, Level level, c10::DeviceType device) {
  constexpr bool kDifferentiable = !std::is_same_v<typename Op::Backward, NotDifferentiable>;
  const std::string_view reason = table.why_absent(level, device);
  LevelRow row{Op::kName, level, device, reason.empty(), reason.empty() && kDifferentiable, std::string(reason)};
  if (row.forward && !kDifferentiable) row.reason = "this op is not differentiated";
  return row;
}

}  // namespace

std::vector<LevelRow> level_matrix() {
  std::vector<LevelRow> rows;
  for_each_table([&](const auto& table) {
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) rows.push_back(row(table, Level(i), device));
    }
  });
  return rows;
}

std::string why_not_on(Level level, c10::Device device) {
  if (!device.is_cuda() || !device.has_index()) return "";
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device.index());
  return why_not_on_gpu(level, gpu.name, gpu.major, gpu.minor);
}

void require_level(std::string_view where, std::string_view op, Level level, c10::Device device) {
  std::string names;
  bool found = false;
  for_each_table([&]<class Op>(const KernelTable<Op>& table) {
    names += (names.empty() ? "" : ", ") + std::string(Op::kName);
    if (Op::kName != op) return;
    found = true;
    std::string problem = table.why_not(level, device.type());
    if (problem.empty()) problem = why_not_on(level, device);
    TORCH_CHECK_VALUE(problem.empty(), where, ": ", problem);
  });
  TORCH_CHECK_VALUE(found, where, ": there is no op ", op, "; ops: ", names);
}

}  // namespace strata::kernels
