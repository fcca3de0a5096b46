// SPDX-License-Identifier: MIT
// The GPUs that this process sees, as the CUDA runtime lists them; no work is started on them.
#pragma once

#include <string>
#include <vector>

#include "sharding/config/device_choice.h"

namespace strata::sharding {

struct VisibleGpus {
  std::vector<VisibleGpu> gpus;
  std::string problem;  // why there are none, if the runtime gives a reason
};

VisibleGpus visible_gpus();

}  // namespace strata::sharding
