// SPDX-License-Identifier: MIT
// Checks that all hosts of a run see the same run.folder.
#pragma once

#include <chrono>
#include <string>

#include "base/ranks.h"

namespace strata::trainer {

// Throws Error(storage) on all ranks, with a rank and its host, unless every rank finds a file in `folder` that rank 0
// has just written there. A rank looks for it for as long as `patience`, because a network file system may show a new
// file late. The file is removed again. `host` is the host of this rank. Collective.
void require_shared_folder(const std::string& folder, const std::string& host, const Ranks& ranks,
                           std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace strata::trainer
