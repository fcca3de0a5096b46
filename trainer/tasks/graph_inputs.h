// SPDX-License-Identifier: MIT
// What tasks on graphs share: features and graphs as the model wants them, and one label out of several as the target.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/level.h"
#include "modules/graph_network_config.h"
#include "modules/graph_step.h"
#include "modules/layer.h"
#include "trainer/data/graph_data.h"

namespace strata::trainer {

constexpr int64_t kIgnoredLabel = -100;  // counts nothing in a loss

// Throws Error (data).
void check_features(const GraphData& graph, const modules::GraphNetworkConfig& model);

// On the CPU.
modules::WeightedGraph weighted_graph(const SparseRows& rows, int64_t columns);

// `count` of the items, from `first_sample` on of the endless order in which each is there once in an epoch.
Tensor drawn(const Tensor& items, uint64_t seed, int64_t first_sample, int64_t count);

modules::StepContext context_of(std::shared_ptr<const modules::GraphStep> graph, const Tensor& dropout_key);

// See Task::loss, evaluation_sums and metrics: of losses, and of the items whose label is the first guess.
Tensor label_loss(const Tensor& scores, const Tensor& labels, const Tensor& scale, kernels::Level level);
Tensor label_sums(const Tensor& scores, const Tensor& labels, kernels::Level level);
std::map<std::string, double> label_metrics(const std::vector<double>& means);

}  // namespace strata::trainer
