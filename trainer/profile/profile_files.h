// SPDX-License-Identifier: MIT
// Writes the profile for programs: JSON lines, and a trace for Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "trainer/profile/profile_table.h"
#include "trainer/profile/recorded_steps.h"

namespace strata::trainer::profile {

// Writes one line with the times of each step, then one line for each op of each layer with its kernels.
std::string json_lines(const std::vector<RecordedStep>& steps, const Device& device);

// The trace has one process for the rank, one track per stream, one for steps, and one for layers and phases.
std::string chrome_trace(const std::vector<RecordedStep>& steps, const Device& device);

}  // namespace strata::trainer::profile
