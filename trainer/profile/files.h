// SPDX-License-Identifier: MIT
// The profile as programs read it: JSON lines, and a trace that Perfetto and chrome://tracing open.
#pragma once

#include <string>
#include <vector>

#include "trainer/profile/steps.h"
#include "trainer/profile/table.h"

namespace strata::trainer::profile {

// For each step one line with its times, then one for each op of each layer, with its kernels.
std::string json_lines(const std::vector<Step>& steps, const Device& device);

// One process for the rank, one track for each stream, and one that shows layers and phases.
std::string chrome_trace(const std::vector<Step>& steps, const Device& device);

}  // namespace strata::trainer::profile
