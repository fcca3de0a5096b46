// SPDX-License-Identifier: MIT
// Facts about `data:` that hold for every kind of graph data.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "modules/config/model_config.h"
#include "trainer/config/data_config.h"

namespace strata::trainer {

// True if labels belong to graphs, not to nodes.
inline bool labels_whole_graphs(const DataConfig& data) {
  return std::holds_alternative<OgbGraphsDataConfig>(data.type);
}

// Returns the list in `neighbors:`, or null if it is not a list.
inline const std::vector<int64_t>* listed_fan_outs(const DataConfig& data) {
  const auto list_of = []<class Data>(const Data& graph) -> const std::vector<int64_t>* {
    if constexpr (requires { graph.neighbors; }) return std::get_if<std::vector<int64_t>>(&graph.neighbors);
    return nullptr;
  };
  return std::visit(list_of, data.type);
}

// Returns the number of sampled neighbors per layer. Empty: neighbors are not sampled.
inline std::vector<int64_t> fan_outs(const DataConfig& data) {
  const std::vector<int64_t>* listed = listed_fan_outs(data);
  return listed != nullptr ? *listed : std::vector<int64_t>();
}

// Returns the same data without sampling: each sample is the whole graph.
inline DataConfig with_all_neighbors(DataConfig data) {
  const auto use_all = []<class Data>(Data& graph) {
    if constexpr (requires { graph.neighbors; }) graph.neighbors = AllNeighbors::all;
  };
  std::visit(use_all, data.type);
  return data;
}

// True if each step has a graph of its own, whose size differs from the size in the step before.
inline bool has_graph_per_step(const DataConfig& data) { return labels_whole_graphs(data) || !fan_outs(data).empty(); }

// True if each rank computes its part of every sample. A sample is then the whole graph.
inline bool shares_samples(const modules::ModelConfig& model, const DataConfig& data) {
  return modules::is_graph(model) && !has_graph_per_step(data);
}

}  // namespace strata::trainer
