// SPDX-License-Identifier: MIT
// Some neighbors of some nodes, some of theirs, and so on: the part of a graph that a step looks at.
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

// What a layer computes: its sources are the targets of the layer before it, its targets the first of its sources.
struct SampledLayer {
  SparseRows rows;  // [targets], columns are sources
  int64_t sources = 0;
};

struct SampledNeighborhood {
  Tensor nodes;                      // int64 [sources of the first layer]: the nodes that the numbers stand for
  std::vector<SampledLayer> layers;  // from the first to the last, whose targets are the seeds
};

class NeighborSampler {
 public:
  struct Rule {
    // Of each target of the last layer, of the layer before it, ...: at most so many neighbors, each at most once.
    std::vector<int64_t> fan_outs;
    bool has_self_loops = false;  // in front of the neighbors in each row; it is always taken, and not counted
    // Values are scaled by neighbors / sampled neighbors: sums have the expectation of the sum over all.
    bool scales_sums = false;
  };
  NeighborSampler(SparseRows rows, Rule rule) : rows_(std::move(rows)), rule_(std::move(rule)) {}

  // Which neighbors a node has in a layer is a function of (key, layer, node): seeds that are spread over calls in
  // another way see the same ones. Each of the seeds, int64, has a row of its own, also where a node is there twice.
  // May be called by several threads at once.
  SampledNeighborhood sample(const Tensor& seeds, uint64_t key) const;

 private:
  SparseRows some_of(const std::vector<int64_t>& targets, int64_t fan_out, uint64_t key) const;

  std::unique_ptr<Numbering> take_numbering() const;

  SparseRows rows_;
  Rule rule_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Numbering>> idle_;  // one for each call at the same time
};

}  // namespace strata::trainer
