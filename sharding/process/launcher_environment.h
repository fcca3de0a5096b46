// SPDX-License-Identifier: MIT
// What the environment of a process says about its ranks, as mpirun and srun set it.
#pragma once

namespace strata::sharding {

// Returns the number in an environment variable, or `otherwise` if the variable is not set.
int environment_number(const char* variable, int otherwise);

// Returns the number of ranks that a launcher started, 1 without a launcher. A single rank under mpirun or srun runs
// without MPI. Throws Error (configuration) if srun started several ranks that cannot find each other.
int ranks_of_launcher();

}  // namespace strata::sharding
