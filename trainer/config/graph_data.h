// SPDX-License-Identifier: MIT
// What `data:` says about graphs, whichever kind of graphs they are.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "modules/config/model_config.h"
#include "trainer/config/data_config.h"

namespace strata::trainer {

// Labels are of graphs.
inline bool has_many_graphs(const DataConfig& data) { return std::holds_alternative<OgbGraphsDataConfig>(data.type); }

// How many neighbors are sampled; empty: none are.
inline std::vector<int64_t> fan_outs(const DataConfig& data) {
  const auto of = []<class Data>(const Data& graph) -> std::vector<int64_t> {
    if constexpr (requires { graph.neighbors; }) {
      if (const auto* list = std::get_if<std::vector<int64_t>>(&graph.neighbors)) return *list;
    }
    return {};
  };
  return std::visit(of, data.type);
}

// Each step sees graphs of its own, of other sizes than those of the step before.
inline bool sees_new_graphs(const DataConfig& data) { return has_many_graphs(data) || !fan_outs(data).empty(); }

// Every rank has its part of every sample: those are whole graphs.
inline bool shares_samples(const modules::ModelConfig& model, const DataConfig& data) {
  return std::holds_alternative<modules::GraphNetworkConfig>(model.type) && !sees_new_graphs(data);
}

}  // namespace strata::trainer
