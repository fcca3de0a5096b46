// SPDX-License-Identifier: MIT
// The error of a run whose GPU refused memory: with the table of what takes it and what needs less.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "trainer/memory/out_of_memory.h"

namespace strata::trainer {

// Calls `work`. If the GPU refuses memory in it, throws Error (out_of_memory) with the report. `classes` is called only
// then. Other exceptions pass.
void report_refused_memory(const TrainerConfig& config, c10::Device device,
                           const std::function<std::vector<MemoryClass>()>& classes, const std::function<void()>& work);

}  // namespace strata::trainer
