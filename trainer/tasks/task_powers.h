// SPDX-License-Identifier: MIT
// What some tasks can besides. Whoever uses a power asks a task for it once, at the start, by dynamic_cast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/data/graphs/graph_sizes.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// All ranks share each sample: each computes its part of it.
class SharesSamples {
 public:
  virtual ~SharesSamples() = default;
  // Called once, before build_model, with all ranks. The communicator outlives the task.
  virtual void share_samples(sharding::Communicator& world) = 0;
};

// Some of its data may turn out to be unusable while it is read.
class FindsBadSamples {
 public:
  virtual ~FindsBadSamples() = default;
  // What this rank has found and has not reported yet: a line for each sample.
  virtual std::vector<std::string> take_bad_samples() const = 0;
  struct Limit {
    int64_t most = 0;
    std::string rule;  // what the limit comes from, for the message
  };
  // Bad samples are left out until they are too many on all ranks. Nothing: these data were checked as a whole.
  virtual std::optional<Limit> bad_sample_limit() const = 0;
};

// Its samples are graphs, or nodes of one.
class HasGraphSizes {
 public:
  virtual ~HasGraphSizes() = default;
  // Returns the sizes of a training step on one rank. It may be called before build_model.
  virtual GraphSizes graph_sizes() const = 0;
};

// Tells the task of its communicator if the task shares samples.
inline void share_samples(Task& task, sharding::Communicator& world) {
  if (auto* shares = dynamic_cast<SharesSamples*>(&task)) shares->share_samples(world);
}

// Returns empty sizes if the task is not one on graphs.
inline GraphSizes graph_sizes_of(const Task& task) {
  const auto* graphs = dynamic_cast<const HasGraphSizes*>(&task);
  return graphs != nullptr ? graphs->graph_sizes() : GraphSizes{};
}
// Reads the graphs of a configuration and returns their sizes. They are empty unless the model is a graph network.
GraphSizes graph_sizes(const TrainerConfig& config);

}  // namespace strata::trainer
