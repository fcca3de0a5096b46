// SPDX-License-Identifier: MIT
// Ends all ranks of a run at once.
#pragma once

#include <functional>

namespace strata::sharding {

// Calls abort(exit_code) on a thread of its own, and ends this process 2 s later. `abort` is MPI_Abort, which also ends
// ranks that the launcher would leave running, and which may hang. If it is empty, only this process ends, at once.
[[noreturn]] void end_all_ranks(const std::function<void(int)>& abort, int exit_code);

}  // namespace strata::sharding
