// SPDX-License-Identifier: MIT
#include "trainer/memory/peak_memory.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/grouped_digits.h"
#include "trainer/memory/step_memory.h"

namespace strata::trainer {
namespace {

// On GPUs. LibTorch gives cuBLAS 32 MiB in each thread that multiplies: that of the forward and that of the backward.
constexpr int64_t kWorkspaces = 2 * (int64_t{32} << 20);

std::string row(const std::string& name, int64_t bytes) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-46s %18s %12.2f MiB\n", name.c_str(), grouped_digits(bytes).c_str(),
                static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::vector<MemoryClass> standing(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                                  int64_t of_graph) {
  std::vector<MemoryClass> classes = memory_per_rank(config, table);
  if (of_graph > 0) classes.push_back({"graph, features and labels", of_graph});
  return classes;
}

// `step`: what is predicted of a step, if anything is.
std::vector<MemoryClass> peak(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                              const std::optional<StepMemory>& step) {
  std::vector<MemoryClass> classes = standing(config, table, step ? step->standing : 0);
  if (!step) return classes;
  const int64_t kept = std::min(step->kept, step->most);
  classes.push_back({"batches", step->batches});
  classes.push_back({"activations that layers keep", kept});
  classes.push_back({"more in " + step->moment, step->most - kept});
  if (config.run.device != sharding::DeviceWish::cpu) classes.push_back({"workspaces of libraries", kWorkspaces});
  return classes;
}

}  // namespace

bool predicts_step_memory(const TrainerConfig& config, const GraphSizes& graph) {
  return step_memory(config, graph).has_value();
}

std::vector<MemoryClass> standing_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                                         const GraphSizes& graph) {
  return standing(config, table, standing_graph_memory(config, graph));
}

std::vector<MemoryClass> peak_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                                     const GraphSizes& graph) {
  return peak(config, table, step_memory(config, graph));
}

int64_t sum_of(const std::vector<MemoryClass>& classes) {
  int64_t sum = 0;
  for (const MemoryClass& part : classes) sum += part.bytes;
  return sum;
}

std::string memory_table(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table) {
  const std::optional<StepMemory> step = step_memory(config);
  const std::vector<MemoryClass> classes = peak(config, table, step);
  std::string text;
  for (const MemoryClass& part : classes) text += row(part.name, part.bytes);
  return text + row(step ? "most at once" : "sum without activations (not predicted)", sum_of(classes));
}

}  // namespace strata::trainer
