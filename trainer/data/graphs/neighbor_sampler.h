// SPDX-License-Identifier: MIT
// Samples neighbors of nodes, neighbors of these neighbors, and so on: the part of a graph that a step uses.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "trainer/data/graphs/graph_data.h"
#include "trainer/data/graphs/numbering.h"

namespace strata::trainer {

// The sampled edges of a layer. Its sources are the targets of the layer before it, and its targets are the first of
// its sources.
struct SampledLayer {
  SparseRows rows;  // [targets]; columns are indices of sources
  int64_t sources = 0;
};

struct SampledNeighborhood {
  Tensor nodes;                      // int64 [sources of the first layer]: node of each source
  std::vector<SampledLayer> layers;  // from the first layer to the last, whose targets are the seeds
};

class NeighborSampler {
 public:
  struct Rule {
    // The largest numbers of neighbors of each target: in the last layer, in the layer before it, ... Each neighbor is
    // taken at most once.
    std::vector<int64_t> fan_outs;
    bool has_self_loops = false;  // before the neighbors in each row; always taken, not counted
    // Scales values by neighbors / sampled neighbors, so that the expectation of a sum is the sum over all neighbors.
    bool scales_sums = false;
  };
  NeighborSampler(SparseRows rows, Rule rule) : rows_(std::move(rows)), rule_(std::move(rule)) {}

  // The neighbors of a node in a layer are a function of (key, layer, node), so they do not depend on how seeds are
  // distributed over calls. Each of the seeds (int64) has its own row, even if a node is repeated. Several threads may
  // call this at the same time.
  SampledNeighborhood sample(const Tensor& seeds, uint64_t key) const;

 private:
  SparseRows sampled_rows(const std::vector<int64_t>& targets, int64_t fan_out, uint64_t key) const;

  std::unique_ptr<Numbering> take_numbering() const;

  SparseRows rows_;
  Rule rule_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Numbering>> idle_;  // one for each concurrent call
};

}  // namespace strata::trainer
