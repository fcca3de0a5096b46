// SPDX-License-Identifier: MIT
#include <concepts>

#include "base/errors.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/op_placement.h"
#include "trainer/data/graphs/graph_partition.h"
#include "trainer/data/graphs/metis_order.h"
#include "trainer/data/graphs/npz_graph.h"
#include "trainer/data/graphs/synthetic_graph.h"
#include "trainer/data/graphs/text_graph.h"
#include "trainer/tasks/graph_classification.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/language_modeling.h"
#include "trainer/tasks/node_classification.h"
#include "trainer/tasks/open_images.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

// One function for each pair of model and data that fit, see kFits.
std::unique_ptr<Task> task_for(const TaskSettings& settings, const modules::TransformerConfig& model, const DataConfig&,
                               const TextDataConfig& data) {
  return std::make_unique<LanguageModeling>(model, data, settings);
}
template <modules::TakesImages Model>
std::unique_ptr<Task> task_for(const TaskSettings& settings, const Model& model, const DataConfig& all,
                               const ImageDataConfig&) {
  const modules::ImageSizes sizes = model.image_sizes();
  return std::make_unique<ImageClassification>(modules::ModelConfig{.type = model}, sizes, all, open_images(sizes, all),
                                               settings);
}
GraphData read_graph(const modules::GraphNetworkConfig&, const NpzGraphDataConfig& data) {
  return read_npz_graph(data.file, data.undirected);
}
GraphData read_graph(const modules::GraphNetworkConfig&, const OgbGraphDataConfig& data) {
  return read_ogb_graph(data.folder, data.split, data.undirected);
}
GraphData read_graph(const modules::GraphNetworkConfig& model, const TextGraphDataConfig& data) {
  const bool is_sparse = model.projection == modules::InputProjection::sparse;
  const TextGraphFiles files = {.edges = data.edges,
                                .features = data.features,
                                .labels = data.labels,
                                .train = data.train_nodes,
                                .validation = data.validation_nodes,
                                .test = data.test_nodes,
                                .sparse_columns = is_sparse ? model.features : 0};
  return read_text_graph(files, data.undirected);
}
template <std::derived_from<GraphUse> Data>
std::unique_ptr<Task> task_for(const TaskSettings& settings, const modules::GraphNetworkConfig& model,
                               const DataConfig& all, const Data& data) {
  const GraphData graph = read_graph(model, data);
  const bool by_metis = data.partition == GraphPartition::metis;
  return std::make_unique<NodeClassification>(model, graph, by_metis ? order_by_metis(graph) : order_of_file(graph),
                                              fan_outs(all), settings);
}
std::unique_ptr<Task> task_for(const TaskSettings& settings, const modules::GraphNetworkConfig& model,
                               const DataConfig&, const OgbGraphsDataConfig& data) {
  return std::make_unique<GraphClassification>(model, read_ogb_graphs(data.folder, data.split, data.undirected),
                                               settings);
}
std::unique_ptr<Task> task_for(const TaskSettings& settings, const modules::GraphNetworkConfig& model,
                               const DataConfig& all, const SyntheticGraphDataConfig& data) {
  const SyntheticGraph size{.nodes = data.nodes,
                            .edges = data.edges,
                            .features = model.features,
                            .classes = model.classes,
                            .sparse_features = model.projection == modules::InputProjection::sparse,
                            .seed = settings.seed};
  const GraphData graph = make_graph(size);
  return std::make_unique<NodeClassification>(model, graph, order_of_file(graph), fan_outs(all), settings);
}

TaskSettings settings_of(const TrainerConfig& config) {
  return {.seed = static_cast<uint64_t>(config.run.seed),
          .batch = config.batch,
          .placement = op_placement(config.model, config.data, config.kernels),
          .precision = config.precision};
}

// A random graph of more edges, nodes or features takes longer to make than a user wants to wait for a prediction:
// these edges add 0.4 s to `validate` on two cores.
constexpr int64_t kMostEdges = 4'000'000, kMostNodes = kMostEdges, kMostFeatures = 100'000'000;

bool is_quickly_made(const SyntheticGraphDataConfig& data, const modules::GraphNetworkConfig& model) {
  const bool is_sparse = model.projection == modules::InputProjection::sparse;
  return data.edges <= kMostEdges && data.nodes <= kMostNodes &&
         (is_sparse || data.nodes * model.features <= kMostFeatures);
}

}  // namespace

std::unique_ptr<Task> make_task(const TrainerConfig& config) {
  const TaskSettings settings = settings_of(config);
  const auto make = [&]<class Model, class Data>(const Model& model, const Data& data) -> std::unique_ptr<Task> {
    if constexpr (kFits<Model, Data>) return task_for(settings, model, config.data, data);
    throw Error(ExitCode::internal, "a configuration was not checked: no task is made of its model and data");
  };
  return std::visit(make, config.model.type, config.data.type);
}

std::unique_ptr<Task> make_task_without_data(const TrainerConfig& config) {
  const TaskSettings settings = settings_of(config);
  const auto make = [&]<class Model>(const Model& model) -> std::unique_ptr<Task> {
    if constexpr (std::same_as<Model, modules::TransformerConfig>) {
      return std::make_unique<LanguageModeling>(model, documents_of(config.data), settings);
    } else if constexpr (modules::TakesImages<Model>) {
      return std::make_unique<ImageClassification>(config.model, model.image_sizes(), config.data, ImageSets(),
                                                   settings);
    } else {
      static_assert(std::same_as<Model, modules::GraphNetworkConfig>, "say which task a new kind of model has");
      const auto* random = std::get_if<SyntheticGraphDataConfig>(&config.data.type);
      return random != nullptr && is_quickly_made(*random, model) ? make_task(config) : nullptr;
    }
  };
  return std::visit(make, config.model.type);
}

}  // namespace strata::trainer
