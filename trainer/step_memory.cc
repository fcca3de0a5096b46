// SPDX-License-Identifier: MIT
#include "trainer/step_memory.h"

#include <string>
#include <variant>

#include "modules/block_config.h"
#include "modules/module_table.h"
#include "trainer/block_memory.h"
#include "trainer/language_model_ends.h"
#include "trainer/memory_ledger.h"
#include "trainer/op_memory.h"
#include "trainer/vision_transformer_ends.h"

namespace strata::trainer {
namespace {

template <class Ends, class Model>
StepMemory follow(const TrainerConfig& config, const Model& model, const std::string& head_group, int64_t positions) {
  MemoryLedger ledger;
  OpMemory ops(config, modules::block_config(model), head_group, config.micro_batch, positions, ledger);
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
  for (size_t i = layers; i-- > 0;) blocks.backward(i);
  ends.embed_backward();
  memory.most = ledger.most();
  memory.moment = ledger.moment();
  return memory;
}

std::optional<StepMemory> step_memory_of(const TrainerConfig& config, const modules::TransformerConfig& model) {
  return follow<LanguageModelEnds>(config, model, modules::head_group(model), model.sequence);
}

std::optional<StepMemory> step_memory_of(const TrainerConfig& config, const modules::VisionTransformerConfig& model) {
  return follow<VisionTransformerEnds>(config, model, "head", model.tokens());
}

std::optional<StepMemory> step_memory_of(const TrainerConfig&, const modules::GraphNetworkConfig&) { return {}; }

}  // namespace

std::optional<StepMemory> step_memory(const TrainerConfig& config) {
  return std::visit([&](const auto& model) { return step_memory_of(config, model); }, config.model.type);
}

}  // namespace strata::trainer
