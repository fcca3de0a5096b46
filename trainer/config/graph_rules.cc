// SPDX-License-Identifier: MIT
// Rules between a graph network and the rest of the run.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/graph_data_facts.h"
#include "trainer/config/model_rules.h"

namespace strata::trainer {

void check_model(const TrainerConfig& config, const modules::GraphNetworkConfig& model, configs::Checks& checks) {
  check_is_no_transformer(config, checks);
  check_evaluates_all(config.evaluation, "nodes", checks);
  if (checks.can_check({"evaluation.samples"}) && config.evaluation.samples != 0) {
    checks.fail("evaluation.samples", "expected 0, because evaluations show samples of texts and images only, got " +
                                          std::to_string(config.evaluation.samples));
  }
  check_has_no_fused_head(config.kernels, "a graph_network ends with a convolution", checks);
  const bool many = labels_whole_graphs(config.data);
  if (checks.can_check({"data.type", "model.pooling"}) && many != model.has_pooling()) {
    const std::string pooling(names(model.pooling).at(static_cast<size_t>(model.pooling)));
    checks.fail("model.pooling", many ? "expected mean, sum or attention, because data.type ogb_graphs has labels of "
                                        "graphs, got none"
                                      : "expected none, because data.type " +
                                            std::string(DataConfig::kTypes.at(config.data.type.index())) +
                                            " has labels of nodes, got " + pooling);
  }
  const std::vector<int64_t>* listed = listed_fan_outs(config.data);
  const int64_t fan_outs = listed == nullptr ? model.layers : static_cast<int64_t>(listed->size());
  if (checks.can_check({"data.neighbors", "data.type", "model.layers"}) && fan_outs != model.layers) {
    checks.fail("data.neighbors", "expected all or a list of " + std::to_string(model.layers) +
                                      ", one for each of model.layers, got " + std::to_string(fan_outs));
  }
  if (!checks.can_check({"data.neighbors", "data.type"})) return;
  if (has_graph_per_step(config.data)) {
    if (checks.can_check({"cuda_graph"}) && config.cuda_graph == CudaGraph::on) {
      checks.fail("cuda_graph",
                  "on captures one step for all, and each step sees graphs of other sizes; expected auto");
    }
    return;
  }
  for (const auto& [key, value] : {std::pair{"batch", config.batch}, {"micro_batch", config.micro_batch}}) {
    if (!checks.can_check({key}) || value == 1) continue;
    checks.fail(key, "expected 1, because a sample is the whole graph, got " + std::to_string(value));
  }
}

}  // namespace strata::trainer
