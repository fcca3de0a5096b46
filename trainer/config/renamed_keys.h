// SPDX-License-Identifier: MIT
// The keys of a run that have new names. A file with an old name is refused with the new one, and what earlier runs
// have written is read.
#pragma once

#include <vector>

#include "configs/renamed_key.h"

namespace strata::trainer {

inline const std::vector<configs::RenamedKey> kRenamedKeys = {
    {"fault.do", "fault.kind"},
    {"fault.stays", "fault.repeats_after_rollback"},
    {"kernels.global_norm", "kernels.sum_of_squares"},
    {"memory", "memory_budget"},
    {"sharding.compare_replicas", "sharding.compare_replicas_every"},
};

}  // namespace strata::trainer
