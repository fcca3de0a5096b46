// SPDX-License-Identifier: MIT
// The shapes that are planned and profiled are of the ops that a graph network calls: as many, for graphs as large.
#include "trainer/levels/used_shapes.h"

#include <ATen/ops/full.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "modules/model_sources.h"
#include "sharding/communication/local_communicator.h"
#include "trainer/config/graph_data.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

using Counts = std::map<std::string, int64_t>;

TrainerConfig config_of(const std::string& model, const std::string& data) {
  const std::string text =
      "run: {folder: unused, ranks: 1}\n"
      "steps: 1\n"
      "batch: 1\n"
      "micro_batch: 1\n"
      "model: {type: graph_network, layers: 3, width: 12, features: 16, classes: 5, " +
      model +
      "}\n"
      "data: {type: synthetic_graph, nodes: 60, edges: 400" +
      data +
      "}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\n"
      "schedule: {type: constant}\n";
  return parse_trainer_config("test.yaml", text, {}).config;
}

Counts& called() {
  static Counts counts;
  return counts;
}

// Forward calls have names such as "linear/aten".
std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& call) {
  const std::string name = call.name();
  const size_t slash = name.find('/');
  if (slash != std::string::npos && name.find('/', slash + 1) == std::string::npos) ++called()[name.substr(0, slash)];
  return nullptr;
}

// Of the loss of a step, and of what is computed once where that is the same in every step.
Counts calls_of(const TrainerConfig& config, Task& task) {
  called().clear();
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::USER_SCOPE}));
  sharding::LocalCommunicator alone(at::kCPU);
  share_samples(task, alone);
  std::map<std::string, Tensor> parameters;
  for (const modules::ParameterGroup& group : declared_model(config).groups) {
    for (const modules::Parameter& parameter : group.parameters) {
      parameters[parameter.name] = at::full(parameter.shape, 0.1).requires_grad_();
    }
  }
  modules::BindingSource source([&](const std::string& name) { return parameters.at(name); });
  task.build_model(modules::Scope(source, config.kernels), at::kCPU);
  if (!shares_samples(config.model, config.data)) called().clear();
  task.loss(task.training_batch(0, config.micro_batch), at::full({}, 1.0), at::full({1}, 7, at::kLong));
  at::removeCallback(handle);
  return called();
}

Counts planned(const TrainerConfig& config, const GraphSizes& sizes) {
  Counts counts;
  for (const UsedShape& used : used_shapes(config, sizes)) counts[std::string(used.shape.op())] += used.uses();
  counts.erase("adamw");
  counts.erase("global_norm");
  return counts;
}

class GraphShapes : public testing::TestWithParam<std::string> {};

TEST_P(GraphShapes, AreOfTheOpsThatAreCalled) {
  for (const char* more : {"", ", norm: true, dropout: 0.5", ", residual: true", ", residual: true, norm: true",
                           ", projection: dense", ", projection: sparse, norm: true"}) {
    for (const char* data : {"", ", neighbors: [3, 3, 3]"}) {
      const TrainerConfig config = config_of("convolution: " + GetParam() + more, data);
      const auto task = make_task(config);
      const Counts counts = planned(config, graph_sizes_of(*task));
      EXPECT_EQ(counts, calls_of(config, *task)) << more << data;
      EXPECT_EQ(counts, planned(config, graph_sizes_of(*task))) << "after the model was built";
      EXPECT_EQ(counts, planned(config, {})) << "without the graph";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Convolutions, GraphShapes,
                         testing::Values("sage", "sage, reduction: max", "gcn", "gin", "gat, heads: 2"),
                         [](const auto& info) { return info.param.substr(0, 3) + std::to_string(info.index); });

TEST(GraphShapes, HaveTheSizesOfThatGraph) {
  const TrainerConfig config = config_of("convolution: sage, projection: sparse", "");
  const GraphSizes sizes = graph_sizes_of(*make_task(config));
  EXPECT_EQ(sizes.nodes, 60);
  EXPECT_EQ(sizes.features.columns, 16);
  ASSERT_EQ(sizes.layers.size(), 1u);
  std::vector<std::string> sums;
  for (const UsedShape& used : used_shapes(config, sizes)) {
    if (used.shape.op() == "neighbor_aggregate") sums.push_back(used.shape.text());
  }
  const std::string entries = std::to_string(sizes.features.entries), edges = std::to_string(sizes.layers[0].entries);
  EXPECT_EQ(sums, (std::vector<std::string>{"60x12 from 16, " + entries + " weighted edges sum",
                                            "60x12 from 60, " + edges + " edges mean",
                                            "60x8 from 60, " + edges + " edges mean"}));
}

// The nodes of a sample, then those that they lead from, and so on.
TEST(GraphShapes, OfSampledNeighborsShrinkLayerByLayer) {
  const GraphSizes sizes = graph_sizes_of(*make_task(config_of("convolution: gcn", ", neighbors: [3, 3, 3]")));
  ASSERT_EQ(sizes.layers.size(), 3u);
  EXPECT_EQ(sizes.nodes, sizes.layers[0].columns);
  EXPECT_EQ(sizes.layers[0].rows, sizes.layers[1].columns);
  EXPECT_EQ(sizes.layers[2].rows, 1);
  EXPECT_LE(sizes.layers[2].entries, 4) << "three neighbors and itself";
  EXPECT_GE(sizes.layers[2].entries, 2);
}

}  // namespace
}  // namespace strata::trainer
