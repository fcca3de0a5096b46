// SPDX-License-Identifier: MIT
#include "trainer/prediction/memory_estimate.h"

#include <algorithm>

#include "trainer/layout/coding.h"
#include "trainer/layout/group_layout.h"

namespace strata::trainer {
namespace {

int64_t bytes_of(const std::vector<Slots>& pools) {
  int64_t bytes = 0;
  for (const Slots& slots : pools) bytes += bytes_of(slots.type) * slots.count * slots.elements;
  return bytes;
}

// The number of modules that have histories of delayed scales.
int64_t delayed_modules(const modules::LinearFormatsConfig& formats,
                        const std::vector<modules::DeclaredModule>& modules) {
  return std::ranges::count_if(modules, [&](const modules::DeclaredModule& module) { return formats.delays(module); });
}

}  // namespace

std::vector<MemoryClass> memory_per_rank(const BufferRules& rules, const OptimizerConfig& optimizer,
                                         const std::vector<modules::ParameterGroup>& table,
                                         const std::vector<modules::DeclaredModule>& modules) {
  const SlotCounts counts = slot_counts(rules, table);
  const int64_t shards = rules.shards();
  int64_t shard = 0, copied = 0, gradients = 0;
  int64_t kept_gradients = 0;                              // bytes of full gradients of blocks
  int64_t non_layer_weights = 0, non_layer_gradients = 0;  // bytes of full weights and gradients outside of blocks
  for (const modules::ParameterGroup& group : table) {
    const int64_t padded = layout_of(group, shards).elements();
    const FloatType compute = rules.precision.compute_of(group.name);
    const int64_t full_gradients = bytes_of(full_gradient_type(rules, group)) * padded;
    shard += padded / shards;
    gradients += bytes_of(gradient_type(rules, group)) * padded / shards;
    if (compute != FloatType::float32) copied += padded / shards;
    if (group.role == modules::Role::layer) {
      if (keeps_full_gradient(rules.sharding, group)) kept_gradients += full_gradients;
    } else {
      non_layer_weights += bytes_of(compute) * padded;
      non_layer_gradients += full_gradients;
    }
  }
  std::vector<MemoryClass> classes = {
      {"master weights", 4 * shard}, {"moments", 4 * optimizer.moments() * shard}, {"gradients", gradients}};
  if (optimizer.moving_average > 0) classes.push_back({"moving average", 4 * shard});
  if (copied > 0) classes.push_back({"compute copy", 2 * copied});
  const modules::LinearFormatsConfig& formats = rules.precision.linear;
  if (const int64_t delayed = delayed_modules(formats, modules); delayed > 0) {
    const int64_t steps = formats.steps_of_history();
    classes.push_back({"histories of delayed scales", 4 * (3 * delayed * (steps + 2) + steps)});
  }
  if (shards == 1) return classes;
  classes.push_back({"weight slots", bytes_of(counts.weights)});
  const int64_t scales = bytes_of_scales(rules, table);
  if (scales > 0) classes.push_back({"scales of weights in 8 bits", scales});
  classes.push_back({"gradient slots", kept_gradients + bytes_of(counts.gradients)});
  classes.push_back({"weights outside of blocks, in full", non_layer_weights});
  classes.push_back({"gradients outside of blocks, in full", non_layer_gradients});
  return classes;
}

int64_t save_memory(const BufferRules& rules, const OptimizerConfig& optimizer,
                    const std::vector<modules::ParameterGroup>& table,
                    const std::vector<modules::DeclaredModule>& modules) {
  int64_t shard = 0;
  for (const modules::ParameterGroup& group : table) shard += layout_of(group, rules.shards()).shard_elements();
  const int64_t averages = optimizer.moving_average > 0 ? 1 : 0;
  const modules::LinearFormatsConfig& formats = rules.precision.linear;
  // Three histories of a module, and what fills the last line of the cache.
  const int64_t histories = delayed_modules(formats, modules) * ((3 * 4 * formats.steps_of_history() + 63) / 64 * 64);
  return 4 * (1 + optimizer.moments() + averages) * shard + histories;
}

}  // namespace strata::trainer
