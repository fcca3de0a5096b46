// SPDX-License-Identifier: MIT
#include "sharding/process/launcher_environment.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/errors.h"

namespace strata::sharding {

int environment_number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

int ranks_of_launcher() {
  const int ranks =
      std::max({1, environment_number("OMPI_COMM_WORLD_SIZE", 1), environment_number("SLURM_STEP_NUM_TASKS", 1)});
  if (ranks > 1 && !std::getenv("PMIX_RANK") && !std::getenv("OMPI_COMM_WORLD_SIZE"))
    throw Error(ExitCode::configuration,
                "srun started " + std::to_string(ranks) +
                    " tasks that cannot find each other: start them by `srun --mpi=pmix` or by mpirun");
  return ranks;
}

}  // namespace strata::sharding
