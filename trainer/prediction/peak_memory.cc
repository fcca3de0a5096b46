// SPDX-License-Identifier: MIT
#include "trainer/prediction/peak_memory.h"

#include <algorithm>
#include <utility>

#include "base/text/formatted.h"
#include "base/text/grouped_digits.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/why_not_captured.h"

namespace strata::trainer {
namespace {

// LibTorch allocates 32 MiB for cuBLAS in each thread that calls it on a GPU: one runs the forward, one the backward.
constexpr int64_t kWorkspaces = 2 * (int64_t{32} << 20);
constexpr int64_t kMostOfCublasLt = int64_t{32} << 20;
constexpr int64_t kMostOfOneDnn = int64_t{8} << 20;

std::string row(const std::string& name, int64_t bytes) {
  return formatted("  %-46s %18s %12.2f MiB\n", name.c_str(), grouped_digits(bytes).c_str(),
                   static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

PeakMemory::PeakMemory(TrainerConfig config) : config_(std::move(config)), model_(declared_model(config_)) {}

std::vector<MemoryClass> PeakMemory::without_step() const {
  return memory_per_rank(buffer_rules(config_), config_.optimizer, model_.groups, model_.modules);
}

std::vector<MemoryClass> PeakMemory::classes(const StepTrace& step) const {
  std::vector<MemoryClass> all = without_step();
  if (step.task > 0) all.push_back({"data and tables of the task", step.task});
  const int64_t kept = std::min(step.kept, step.peak);
  all.push_back({"batches", step.batches});
  all.push_back({"activations that layers keep", kept, /*lasts=*/false});
  all.push_back({"more in " + step.peak_place, step.peak - kept, /*lasts=*/false});
  const bool on_gpu = device_of_trace(config_.run.device) == c10::kCUDA;
  if (why_not_captured(config_.cuda_graph, config_.fault, config_.data, config_.kernels, on_gpu).empty()) {
    all.push_back({"evaluations, beside the captured step", step.evaluation});
  } else if (step.evaluation > step.peak) {
    all.push_back({"more in evaluations", step.evaluation - step.peak});
  }
  if (on_gpu && step.calls_cublas) all.push_back({"workspaces of libraries", kWorkspaces});
  return all;
}

std::vector<MemoryClass> PeakMemory::lasting(const StepTrace& step) const {
  std::vector<MemoryClass> all = classes(step);
  std::erase_if(all, [](const MemoryClass& part) { return !part.lasts; });
  return all;
}

int64_t PeakMemory::margin(const StepTrace& step) const {
  const int64_t graph_bytes = has_graph_per_step(config_.data) ? (step.peak + step.batches) / 10 : 0;
  if (device_of_trace(config_.run.device) == c10::kCUDA) {
    return graph_bytes + sum_of(classes(step)) / 100 + kMostOfCublasLt;
  }
  const bool in_16_bits = std::ranges::any_of(model_.groups, [this](const modules::ParameterGroup& group) {
    return config_.precision.compute_of(group.name) != FloatType::float32;
  });
  return graph_bytes + (in_16_bits ? kMostOfOneDnn : 0);
}

int64_t PeakMemory::save_bytes() const {
  return save_memory(buffer_rules(config_), config_.optimizer, model_.groups, model_.modules);
}

std::string PeakMemory::table(const std::optional<StepTrace>& step) const {
  const std::vector<MemoryClass> all = step ? classes(*step) : without_step();
  std::string text;
  for (const MemoryClass& part : all) text += row(part.name, part.bytes);
  text += row(step ? "most at once" : "sum without activations (not predicted)", sum_of(all));
  return text + row("also, in memory of the host, for saves", save_bytes());
}

int64_t sum_of(const std::vector<MemoryClass>& classes) {
  int64_t sum = 0;
  for (const MemoryClass& part : classes) sum += part.bytes;
  return sum;
}

}  // namespace strata::trainer
