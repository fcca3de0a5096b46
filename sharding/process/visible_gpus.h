// SPDX-License-Identifier: MIT
// The GPUs that this process sees, asked of the CUDA runtime without starting work on any.
#pragma once

#include <string>
#include <vector>

#include "sharding/config/device_choice.h"

namespace strata::sharding {

struct VisibleGpus {
  std::vector<Gpu> gpus;
  std::string problem;  // why there are none, where the runtime says so
};

VisibleGpus visible_gpus();

}  // namespace strata::sharding
