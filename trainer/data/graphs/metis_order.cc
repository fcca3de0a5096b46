// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/metis_order.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <dlfcn.h>
#include <metis.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/errors.h"

namespace strata::trainer {
namespace {

constexpr int64_t kFewestNodes = 256, kMostCounted = std::numeric_limits<idx_t>::max();

// METIS is loaded only when it is needed, because most runs train other models, on machines without it.
decltype(&METIS_PartGraphRecursive) metis() {
  constexpr const char* kLibrary = "libmetis.so.5";
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, "METIS_PartGraphRecursive");
  if (function == nullptr) {
    throw Error(ExitCode::configuration, std::string("data.partition: metis needs ") + kLibrary +
                                             ", which is not here; install Debian's libmetis5, or write "
                                             "data.partition: contiguous");
  }
  return reinterpret_cast<decltype(&METIS_PartGraphRecursive)>(function);
}

// Both directions of every edge, in METIS's integer type.
struct MetisGraph {
  std::vector<idx_t> offsets, neighbors, weights;
};

MetisGraph for_metis(const GraphData& graph) {
  GraphData both{.nodes = graph.nodes};
  const Tensor targets = at::arange(graph.nodes).repeat_interleave(graph.offsets.diff());
  set_edges(both, graph.neighbors, targets, /*undirected=*/true);
  if (!metis_can_count(both.nodes, both.edges())) {
    throw Error(ExitCode::configuration,
                graph.name + ": has " + std::to_string(both.nodes) + " nodes and " + std::to_string(both.edges()) +
                    " edges in both directions; expected at most " + std::to_string(kMostCounted) +
                    " together, which METIS can count; write data.partition: contiguous");
  }
  const auto narrowed = [](const Tensor& values) {
    return std::vector<idx_t>(integers(values), integers(values) + values.numel());
  };
  MetisGraph result{narrowed(both.offsets), narrowed(both.neighbors), {}};
  for (int64_t node = 0; node < graph.nodes; ++node) {
    const auto i = static_cast<size_t>(node);
    result.weights.push_back(1 + result.offsets[i + 1] - result.offsets[i]);
  }
  return result;
}

}  // namespace

bool metis_can_count(int64_t nodes, int64_t directed_edges) { return directed_edges <= kMostCounted - nodes; }

GraphOrder order_by_metis(const GraphData& graph) {
  if (graph.nodes < kFewestNodes) return order_of_file(graph);
  MetisGraph edges = for_metis(graph);
  std::array<idx_t, METIS_NOPTIONS> options;
  options.fill(-1);  // -1 selects METIS's defaults
  options[METIS_OPTION_SEED] = 1;
  idx_t nodes = static_cast<idx_t>(graph.nodes), constraints = 1, parts = GraphOrder::kParts, cut = 0;
  const auto count = static_cast<size_t>(graph.nodes);
  const SharedMemory results((count + 1) * sizeof(idx_t));
  auto* part = static_cast<idx_t*>(results.data());
  const auto partition = metis();
  // METIS treats a SIGTERM as an error and leaves its handler by longjmp. If it was inside of random(), the lock of
  // random() stays locked, and its next call waits for ever. In a child process METIS gets no SIGTERM.
  run_in_child([&] {
    part[count] = partition(&nodes, &constraints, edges.offsets.data(), edges.neighbors.data(), edges.weights.data(),
                            /*vsize=*/nullptr, /*adjwgt=*/nullptr, &parts, /*tpwgts=*/nullptr, /*ubvec=*/nullptr,
                            options.data(), &cut, part);
  });
  if (const idx_t code = part[count]; code == 0 || code == METIS_ERROR_MEMORY) {
    throw Error(ExitCode::out_of_memory, graph.name + ": METIS " +
                                             (code == 0 ? "was ended by a signal, most often for" : "reports") +
                                             " lack of memory; give it more, or write data.partition: contiguous");
  } else if (code != METIS_OK) {
    throw Error(ExitCode::data, graph.name + ": METIS could not partition it (code " + std::to_string(code) + ")");
  }
  const Tensor part_of_node = at::empty({graph.nodes}, at::kLong);
  std::copy_n(part, count, part_of_node.mutable_data_ptr<int64_t>());
  GraphOrder order;
  const auto [sorted, nodes_in_order] = at::sort(part_of_node, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  order.nodes = nodes_in_order;
  const int64_t* first = integers(sorted);
  for (int64_t i = 0; i <= GraphOrder::kParts; ++i) {
    order.offsets.push_back(std::lower_bound(first, first + graph.nodes, i) - first);
  }
  return order;
}

}  // namespace strata::trainer
