// SPDX-License-Identifier: MIT
// Says why the steps of a run are not captured as a CUDA graph.
#pragma once

#include <string>

#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns the reason why steps are not captured; empty if they are. It is the same on all ranks.
std::string why_not_captured(CudaGraph setting, const FaultConfig& fault, const DataConfig& data,
                             const modules::KernelsConfig& kernels, bool on_gpu);

}  // namespace strata::trainer
