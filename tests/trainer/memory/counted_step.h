// SPDX-License-Identifier: MIT
// Steps of small models under mpirun, whose memory the allocator counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/load_config.h"

namespace strata::trainer {

// Asked before there is a session.
bool on_gpu();

// A language model on the device and the ranks of this test.
LoadedConfig loaded_for(std::vector<std::string> overrides);
inline TrainerConfig config_for(const std::vector<std::string>& overrides) { return loaded_for(overrides).config; }

// Return overrides for a vision transformer, whose images are as large as the stream, and for a graph network on nodes
// of a random graph. On ranks the graph is in parts, unless neighbors are sampled.
std::vector<std::string> vision(const std::vector<std::string>& overrides);
std::vector<std::string> graph(const std::vector<std::string>& overrides);

struct Counted {
  std::vector<int64_t> layers;
  int64_t most = 0;
  int64_t task = 0;   // what the task keeps on the device
  int64_t batch = 0;  // bytes of one micro-batch
};

// Counts in the second of two steps of at most two micro-batches each, because the first makes what is made once.
Counted count(const TrainerConfig& config);

}  // namespace strata::trainer
