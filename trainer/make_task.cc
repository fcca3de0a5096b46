// SPDX-License-Identifier: MIT
#include "configs/errors.h"
#include "trainer/data/graph_partition.h"
#include "trainer/data/npz_graph.h"
#include "trainer/data/synthetic_graph.h"
#include "trainer/task.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/language_modeling.h"
#include "trainer/tasks/node_classification.h"

namespace strata::trainer {
namespace {

// One function for each pair of model and data that fit, see kFits.
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::TransformerConfig&, const TextDataConfig&) {
  return std::make_unique<LanguageModeling>(config);
}
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::VisionTransformerConfig&,
                               const ImageMixingConfig&) {
  return std::make_unique<ImageClassification>(config);
}
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::GraphNetworkConfig&,
                               const GraphDataConfig& data) {
  const GraphData graph = read_npz_graph(data.file, data.undirected);
  const bool by_metis = data.partition == GraphPartition::metis;
  return std::make_unique<NodeClassification>(config, graph, by_metis ? order_by_metis(graph) : order_of_file(graph));
}
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::GraphNetworkConfig& model,
                               const SyntheticGraphDataConfig& data) {
  const SyntheticGraph size{.nodes = data.nodes,
                            .edges = data.edges,
                            .features = model.features,
                            .classes = model.classes,
                            .sparse_features = model.projection == modules::InputProjection::sparse,
                            .seed = static_cast<uint64_t>(config.run.seed)};
  const GraphData graph = make_graph(size);
  return std::make_unique<NodeClassification>(config, graph, order_of_file(graph));
}

}  // namespace

std::unique_ptr<Task> make_task(const TrainerConfig& config) {
  const auto make = [&]<class Model, class Data>(const Model& model, const Data& data) -> std::unique_ptr<Task> {
    if constexpr (kFits<Model, Data>) return task_for(config, model, data);
    throw Error(ExitCode::internal, "a configuration was not checked: no task is made of its model and data");
  };
  return std::visit(make, config.model.type, config.data.type);
}

}  // namespace strata::trainer
