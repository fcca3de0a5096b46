// SPDX-License-Identifier: MIT
#include "kernels/levels.h"

#include <c10/util/Exception.h>

#include <type_traits>

#include "kernels/activation/activation.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/global_norm/global_norm.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

// Calls visit(table) for the table of every op.
template <class Visit>
void for_each_table(Visit visit) {
  visit(LinearOp::kKernels);
  visit(LayerNormOp::kKernels);
  visit(AddLayerNormOp::kKernels);
  visit(LayerNormGeluTanhOp::kKernels);
  visit(RmsNormOp::kKernels);
  visit(AddRmsNormOp::kKernels);
  visit(ActivationOp::kKernels);
  visit(SwigluOp::kKernels);
  visit(RotaryOp::kKernels);
  visit(AttentionOp::kKernels);
  visit(EmbeddingOp::kKernels);
  visit(DropoutOp::kKernels);
  visit(AddDropoutOp::kKernels);
  visit(CrossEntropyOp::kKernels);
  visit(LinearCrossEntropyOp::kKernels);
  visit(NeighborAggregateOp::kKernels);
  visit(NeighborAttentionOp::kKernels);
  visit(AdamwOp::kKernels);
  visit(GlobalNormOp::kKernels);
}

template <class Op>
LevelRow row(const KernelTable<Op>& table, Level level, c10::DeviceType device) {
  constexpr bool kDifferentiable = !std::is_same_v<typename Op::Backward, NotDifferentiable>;
  const Kernel<Op>& kernel = table.slot(level);
  LevelRow row{Op::kName, level, device, kernel.forward != nullptr && runs_on(level, device), false, ""};
  row.backward = row.forward && kDifferentiable;
  if (kernel.forward == nullptr) {
    row.reason = kernel.absent;
  } else if (!row.forward) {
    row.reason = kGpuCode;
  } else if (!kDifferentiable) {
    row.reason = "this op is not differentiated";
  }
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

void require_level(std::string_view where, std::string_view op, Level level, c10::DeviceType device) {
  std::string names;
  bool found = false;
  for_each_table([&]<class Op>(const KernelTable<Op>& table) {
    names += (names.empty() ? "" : ", ") + std::string(Op::kName);
    if (Op::kName != op) return;
    found = true;
    const std::string problem = table.why_not(level, device);
    TORCH_CHECK_VALUE(problem.empty(), where, ": ", problem);
  });
  TORCH_CHECK_VALUE(found, where, ": there is no op ", op, "; ops: ", names);
}

}  // namespace strata::kernels
