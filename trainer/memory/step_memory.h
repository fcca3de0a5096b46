// SPDX-License-Identifier: MIT
// What one step takes on a rank besides parameters and optimizer, predicted from its configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"

namespace strata::trainer {

struct StepMemory {
  std::vector<int64_t> layers;  // what the forward of each layer leaves for its backward and for the next layer
  int64_t standing = 0;         // graphs, features and targets that stay on the device
  int64_t batches = 0;          // inputs and targets
  int64_t kept = 0;             // by all layers when the loss begins
  int64_t most = 0;             // the same, gradients, and what ops need while they run, at most at once
  std::string moment;           // when that is: "the loss", "the backward of layer 11"
};

// Graphs, features and targets that stay on the device, whichever levels go through them. Nothing where the model is
// not one of graphs, or their sizes are not known.
int64_t standing_graph_memory(const TrainerConfig& config, const GraphSizes& graph);

// Follows a micro-batch through forward and backward, tensor by tensor, with what each op allocates at the level that
// was chosen for it. Levels that were not measured yet (`best` without a plan) count as cuda, traced ones (torchscript)
// as aten, which keeps less. Graph networks are followed where the sizes of their graphs are known, which for sampled
// neighbors and many graphs are those of the first batch; others take about as much; on GPUs not where ATen's operators
// go through neighbors, nor vision transformers in 16 bits at its attention. Not in it: what libraries need while they
// multiply: oneDNN of 16-bit matrices on CPUs 325 kB for 64 x 192 and 1.1 MB for 768 x 768; cuBLASLt up to 32 MiB.
std::optional<StepMemory> step_memory(const TrainerConfig& config, const GraphSizes& graph = {});

}  // namespace strata::trainer
