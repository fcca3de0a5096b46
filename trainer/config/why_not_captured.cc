// SPDX-License-Identifier: MIT
#include "trainer/config/why_not_captured.h"

#include "modules/config/kernel_selection.h"
#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {

std::string why_not_captured(CudaGraph setting, const FaultConfig& fault, const DataConfig& data,
                             const modules::KernelsConfig& kernels, bool on_gpu) {
  if (setting == CudaGraph::off) return "cuda_graph is off";
  if (!on_gpu) return "the run is on CPUs";
  if (!can_strike_captured(fault.kind)) return "a fault is to strike inside of a step (fault.kind)";
  if (has_graph_per_step(data)) return "each step sees graphs of other sizes (data)";
  if (modules::compiles_in_first_calls(kernels)) {
    return "TorchScript compiles while it runs (kernels)";
  }
  return "";
}

}  // namespace strata::trainer
