// SPDX-License-Identifier: MIT
#include "trainer/memory/step_memory.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "modules/config/block_config.h"
#include "modules/config/module_name.h"
#include "modules/config/module_table.h"
#include "modules/config/parameter_table.h"
#include "trainer/config/graph_data.h"
#include "trainer/memory/block_memory.h"
#include "trainer/memory/graph_memory.h"
#include "trainer/memory/language_model_ends.h"
#include "trainer/memory/memory_ledger.h"
#include "trainer/memory/op_memory.h"
#include "trainer/memory/slot_plan.h"
#include "trainer/memory/vision_transformer_ends.h"

namespace strata::trainer {
namespace {

// Bytes, by group.
std::map<std::string, int64_t> replica_sums(const BufferRules& rules,
                                            const std::vector<modules::ParameterGroup>& table) {
  std::map<std::string, int64_t> sums;
  for (const modules::ParameterGroup& group : table) sums[group.name] = bytes_of_replica_sum(rules, group);
  return sums;
}

template <class Ends, class Model>
std::optional<StepMemory> follow(const TrainerConfig& config, const Model& model, const std::string& head_group,
                                 int64_t positions) {
  MemoryLedger ledger;
  OpMemory ops(config, modules::block_config(model), {.head = head_group}, config.micro_batch, positions, ledger);
  if (!ops.knows_its_attention()) return {};
  BlockMemory blocks(ops, ledger);
  Ends ends(config, model, ops, ledger);
  StepMemory memory;
  // On GPUs two stages and what the step reads.
  memory.batches = (ops.on_gpu() ? 3 : 1) * config.micro_batches() * ends.batch();
  ends.embed();
  const size_t layers = ops.layers().size();
  for (size_t i = 0; i < layers; ++i) memory.layers.push_back(blocks.forward(i));
  memory.kept = ledger.now();
  ends.head(blocks.let_go_behind_layers());
  // Sums over replicas begin where the backward of their group ends; that of the root when those of layers have ended.
  const std::map<std::string, int64_t> sums = replica_sums(buffer_rules(config), modules::parameter_table(model));
  if (head_group != "root") ledger.take(sums.at(head_group));
  int64_t of_layers = 0;
  for (size_t i = layers; i-- > 0;) {
    blocks.backward(i);
    const int64_t sum = sums.at(modules::block_name(static_cast<int64_t>(i)));
    ledger.take(sum);
    of_layers += sum;
  }
  ends.embed_backward();
  ledger.give(of_layers);
  ledger.at("the sum over replicas");
  ledger.take(sums.at("root"));
  memory.most = ledger.most();
  memory.moment = ledger.moment();
  return memory;
}

std::optional<StepMemory> step_memory_of(const TrainerConfig& config, const modules::TransformerConfig& model,
                                         const GraphSizes&) {
  return follow<LanguageModelEnds>(config, model, modules::head_group(model), model.sequence);
}

std::optional<StepMemory> step_memory_of(const TrainerConfig& config, const modules::VisionTransformerConfig& model,
                                         const GraphSizes&) {
  return follow<VisionTransformerEnds>(config, model, "head", model.tokens());
}

// A whole random graph has the size that is asked for.
GraphSizes asked_for(const DataConfig& all, int64_t ranks, const modules::GraphNetworkConfig& model) {
  const auto* data = std::get_if<SyntheticGraphDataConfig>(&all.type);
  const bool sparse = model.projection == modules::InputProjection::sparse;
  if (data == nullptr || sparse || sees_new_graphs(all) || ranks > 1) return {};
  GraphSizes sizes;
  sizes.nodes = data->nodes;
  sizes.layers = {{data->nodes, data->nodes, data->edges + (model.wants_self_loops() ? data->nodes : 0),
                   model.convolution == modules::GraphConvolutionKind::gcn}};
  sizes.standing = sizes.layers.front();
  sizes.splits = 2;
  return sizes;
}

GraphSizes known_sizes(const TrainerConfig& config, const modules::GraphNetworkConfig& model, const GraphSizes& given) {
  return given.layers.empty() ? asked_for(config.data, config.run.ranks, model) : given;
}

std::optional<StepMemory> step_memory_of(const TrainerConfig& config, const modules::GraphNetworkConfig& model,
                                         const GraphSizes& given) {
  const GraphSizes graph = known_sizes(config, model, given);
  if (graph.layers.empty()) return {};
  MemoryLedger ledger;
  GraphMemory step(config, model, graph, ledger);
  if (!step.knows_its_levels()) return {};
  StepMemory memory;
  memory.standing = step.standing();
  memory.batches = (config.run.device != sharding::DeviceWish::cpu ? 3 : 1) * config.micro_batches() * step.batch();
  memory.layers = step.follow();
  memory.kept = step.kept();
  memory.most = ledger.most();
  memory.moment = ledger.moment();
  return memory;
}

}  // namespace

int64_t standing_graph_memory(const TrainerConfig& config, const GraphSizes& given) {
  const auto* model = std::get_if<modules::GraphNetworkConfig>(&config.model.type);
  if (model == nullptr) return 0;
  const GraphSizes graph = known_sizes(config, *model, given);
  MemoryLedger ledger;
  return graph.layers.empty() ? 0 : GraphMemory(config, *model, graph, ledger).standing();
}

std::optional<StepMemory> step_memory(const TrainerConfig& config, const GraphSizes& graph) {
  return std::visit([&](const auto& model) { return step_memory_of(config, model, graph); }, config.model.type);
}

}  // namespace strata::trainer
