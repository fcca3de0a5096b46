// SPDX-License-Identifier: MIT
// Reads the energy that a GPU has taken, from the counter that its driver keeps.
#pragma once

#include <c10/core/Device.h>

#include <optional>

namespace strata::tools {

// Joules that the whole GPU has taken since the driver was loaded, by nvmlDeviceGetTotalEnergyConsumption of NVML. The
// counter moves some ten times a second. Other programs on the same GPU count too. None for CPUs, for GPUs without a
// counter, and for a machine without NVML.
std::optional<double> joules_of(c10::Device device);

}  // namespace strata::tools
