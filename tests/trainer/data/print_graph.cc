// SPDX-License-Identifier: MIT
// print_graph CLASSES directed|undirected npz FILE | ogb FOLDER SPLIT | ogbs FOLDER SPLIT | text EDGES FEATURES LABELS
// TRAIN VALIDATION [TEST [COLUMNS OF SPARSE FEATURES]]: prints one graph, or many, as JSON. Tests in Python compare it
// with the graph that they wrote. With the word --runs alone it prints many (forked_runs.h).
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/end_process.h"
#include "base/errors.h"
#include "tests/trainer/data/forked_runs.h"
#include "trainer/data/graphs/npz_graph.h"
#include "trainer/data/graphs/text_graph.h"

namespace strata::trainer {
namespace {

template <class T>
nlohmann::json list(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return std::vector<T>(tensor.const_data_ptr<T>(), tensor.const_data_ptr<T>() + tensor.numel());
}

void print(const GraphData& graph) {
  const nlohmann::json json = {
      {"nodes", graph.nodes},
      {"features", graph.features},
      {"first_nodes", list<int64_t>(graph.first_nodes)},
      {"offsets", list<int64_t>(graph.offsets)},
      {"neighbors", list<int64_t>(graph.neighbors)},
      {"dense", list<float>(graph.dense_features)},
      {"sparse",
       {list<int64_t>(graph.sparse_features.offsets), list<int64_t>(graph.sparse_features.columns),
        list<float>(graph.sparse_features.values)}},
      {"labels", list<int64_t>(graph.labels)},
      {"train", list<int64_t>(graph.train)},
      {"validation", list<int64_t>(graph.validation)},
      {"test", list<int64_t>(graph.test)},
      {"fingerprint", fingerprint_of(graph)}};
  std::puts(json.dump().c_str());
}

int run(std::vector<std::string> arguments) try {
  arguments.resize(11);
  const bool undirected = arguments[2] == "undirected";
  const std::string& format = arguments[3];
  const TextGraphFiles files = {.edges = arguments[4],
                                .features = arguments[5],
                                .labels = arguments[6],
                                .train = arguments[7],
                                .validation = arguments[8],
                                .test = arguments[9],
                                .sparse_columns = arguments[10].empty() ? 0 : std::stoll(arguments[10])};
  const GraphData graph = format == "npz"    ? read_npz_graph(arguments[4], undirected)
                          : format == "ogb"  ? read_ogb_graph(arguments[4], arguments[5], undirected)
                          : format == "ogbs" ? read_ogb_graphs(arguments[4], arguments[5], undirected)
                                             : read_text_graph(files, undirected);
  check_graph(graph, std::stoll(arguments[1]));
  print(graph);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}

}  // namespace
}  // namespace strata::trainer

int main(int count, char** words) {
  strata::end_process(strata::tests::one_or_forked_runs({words, words + count}, strata::trainer::run));
}
