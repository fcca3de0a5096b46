// SPDX-License-Identifier: MIT
#include <concepts>

#include "base/errors.h"
#include "trainer/data/graphs/graph_partition.h"
#include "trainer/data/graphs/npz_graph.h"
#include "trainer/data/graphs/synthetic_graph.h"
#include "trainer/data/graphs/text_graph.h"
#include "trainer/tasks/graph_classification.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/language_modeling.h"
#include "trainer/tasks/node_classification.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

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
GraphData read_graph(const GraphDataConfig& data) { return read_npz_graph(data.file, data.undirected); }
GraphData read_graph(const OgbGraphDataConfig& data) {
  return read_ogb_graph(data.folder, data.split, data.undirected);
}
GraphData read_graph(const TextGraphDataConfig& data) {
  const TextGraphFiles files = {.edges = data.edges,
                                .features = data.features,
                                .labels = data.labels,
                                .train = data.train_nodes,
                                .validation = data.validation_nodes,
                                .test = data.test_nodes};
  return read_text_graph(files, data.undirected);
}
template <std::derived_from<GraphUse> Data>
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::GraphNetworkConfig&, const Data& data) {
  const GraphData graph = read_graph(data);
  const bool by_metis = data.partition == GraphPartition::metis;
  return std::make_unique<NodeClassification>(config, graph, by_metis ? order_by_metis(graph) : order_of_file(graph));
}
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::GraphNetworkConfig&,
                               const OgbGraphsDataConfig& data) {
  return std::make_unique<GraphClassification>(config, read_ogb_graphs(data.folder, data.split, data.undirected));
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

GraphSizes graph_sizes(const TrainerConfig& config) {
  if (!std::holds_alternative<modules::GraphNetworkConfig>(config.model.type)) return {};
  return graph_sizes_of(*make_task(config));
}

}  // namespace strata::trainer
