// SPDX-License-Identifier: MIT
// print_graph FILE CLASSES directed|undirected: a graph as JSON, for a test in another language to compare with what it
// wrote.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "configs/errors.h"
#include "trainer/data/npz_graph.h"

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

}  // namespace
}  // namespace strata::trainer

int main(int, char** arguments) try {
  using namespace strata::trainer;
  const GraphData graph = read_npz_graph(arguments[1], std::string(arguments[3]) == "undirected");
  check(graph, std::atoll(arguments[2]));
  print(graph);
} catch (const strata::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}
