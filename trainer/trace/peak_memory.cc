// SPDX-License-Identifier: MIT
#include "trainer/trace/peak_memory.h"

#include <algorithm>
#include <cstdio>

#include "base/grouped_digits.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/why_no_graph.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

// LibTorch allocates 32 MiB for cuBLAS in each thread that multiplies on a GPU: one runs the forward, one the backward.
constexpr int64_t kWorkspaces = 2 * (int64_t{32} << 20);
constexpr int64_t kMostOfCublasLt = int64_t{32} << 20;
constexpr int64_t kMostOfOneDnn = int64_t{8} << 20;

std::string row(const std::string& name, int64_t bytes) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-46s %18s %12.2f MiB\n", name.c_str(), grouped_digits(bytes).c_str(),
                static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::vector<MemoryClass> peak_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& groups,
                                     const StepTrace& step) {
  std::vector<MemoryClass> classes = memory_per_rank(config, groups);
  if (step.task > 0) classes.push_back({"data and tables of the task", step.task});
  if (step.histories > 0) classes.push_back({std::string(kHistories), step.histories});
  const int64_t kept = std::min(step.kept, step.peak);
  classes.push_back({"batches", step.batches});
  classes.push_back({"activations that layers keep", kept});
  classes.push_back({"more in " + step.moment, step.peak - kept});
  const bool on_gpu = device_of_trace(config) == c10::kCUDA;
  if (why_no_graph(config, on_gpu).empty()) {
    classes.push_back({"evaluations, beside the captured step", step.evaluation});
  } else if (step.evaluation > step.peak) {
    classes.push_back({"more in evaluations", step.evaluation - step.peak});
  }
  if (on_gpu) classes.push_back({"workspaces of libraries", kWorkspaces});
  return classes;
}

int64_t margin_of(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& groups,
                  const StepTrace& step) {
  const int64_t of_graphs = sees_new_graphs(config.data) ? (step.peak + step.batches) / 10 : 0;
  if (device_of_trace(config) == c10::kCUDA) {
    return of_graphs + sum_of(peak_memory(config, groups, step)) / 100 + kMostOfCublasLt;
  }
  const bool in_16_bits = std::ranges::any_of(groups, [&](const modules::ParameterGroup& group) {
    return config.precision.compute_of(group.name) != FloatType::float32;
  });
  return of_graphs + (in_16_bits ? kMostOfOneDnn : 0);
}

int64_t sum_of(const std::vector<MemoryClass>& classes) {
  int64_t sum = 0;
  for (const MemoryClass& part : classes) sum += part.bytes;
  return sum;
}

std::string memory_table(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& groups,
                         const std::optional<StepTrace>& step) {
  const std::vector<MemoryClass> classes = step ? peak_memory(config, groups, *step) : memory_per_rank(config, groups);
  std::string text;
  for (const MemoryClass& part : classes) text += row(part.name, part.bytes);
  text += row(step ? "most at once" : "sum without activations (not predicted)", sum_of(classes));
  const int64_t saved = save_memory(config, groups, declared_model(config).modules);
  return text + row("also, in memory of the host, for saves", saved);
}

}  // namespace strata::trainer
