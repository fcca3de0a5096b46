// SPDX-License-Identifier: MIT
// The report of a run whose GPU is out of memory: the bytes of each class of tensors, and settings that need less.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"
#include "trainer/memory/device_memory.h"
#include "trainer/prediction/memory_estimate.h"

namespace strata::trainer {

// Returns the text after a remedy, or nothing if the remedy does not help.
using NoteOnChange = std::function<std::optional<std::string>(const TrainerConfig& changed)>;

// The three changes that apply to this configuration and cost the least time, a line each.
std::string what_needs_less(const TrainerConfig& config, const NoteOnChange& note = nullptr);

// What was refused, and a table by class of what takes the memory.
std::string out_of_memory_report(const std::vector<MemoryClass>& classes, const DeviceMemory& memory,
                                 const std::string& request);

}  // namespace strata::trainer
