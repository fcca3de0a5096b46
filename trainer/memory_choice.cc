// SPDX-License-Identifier: MIT
#include "trainer/memory_choice.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/errors.h"
#include "trainer/layer_trial.h"
#include "trainer/memory/layer_costs.h"
#include "trainer/memory/out_of_memory.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/trace/peak_memory.h"
#include "trainer/trace/trace_step.h"

namespace strata::trainer {
namespace {

constexpr double kGibibyte = 1 << 30;
constexpr double kSure = 1.03;  // times the budget; predictions are more exact than that

bool is_none(const GradientCheckpointing& checkpointing) {
  const Recompute* word = std::get_if<Recompute>(&checkpointing.layers);
  return word != nullptr && *word == Recompute::none;
}

std::string value_of(const LoadedConfig& loaded, const std::string& key) {
  std::string value;
  for (const configs::Line& line : loaded.lines()) {
    if (line.path == key) value = line.value;
  }
  return value;
}

// Returns the gradient_checkpointing that the run in this folder chose at its start, as YAML. Returns an empty text if
// the folder holds no run, or one with another configuration.
std::string earlier_choice(const TrainerConfig& config) {
  std::ifstream file(config.run.folder + "/resolved.yaml", std::ios::binary);
  if (!file) return "";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const LoadedConfig before = parse_trainer_config("resolved.yaml", text, {"fault={do: none}"});
    TrainerConfig now = config;
    now.gradient_checkpointing = before.config.gradient_checkpointing;
    if (differences_that_forbid_resuming(text, now).empty()) return value_of(before, "gradient_checkpointing");
  } catch (const Error&) {
    // The code that claims the folder reports errors of its file.
  }
  return "";
}

std::string text_of(int64_t bytes) {
  const bool large = static_cast<double>(bytes) >= kGibibyte;
  char text[32];
  std::snprintf(text, sizeof text, "%.3f %s", static_cast<double>(bytes) / (large ? kGibibyte : 1 << 20),
                large ? "GiB" : "MiB");
  return text;
}

// Prints one line per kind of checkpointing, for the layer that keeps the most memory.
void print(const StepCosts& costs, const LayerChoice& choice, int64_t budget, const std::string& chosen) {
  const auto largest = std::max_element(costs.layers.begin(), costs.layers.end(),
                                        [](const auto& a, const auto& b) { return a[0].kept < b[0].kept; });
  std::printf("memory: what a layer keeps, and how long its backward takes\n");
  for (size_t how = 0; how < largest->size(); ++how) {
    const std::string word(names(Recompute{})[how]);
    const LayerCost& cost = (*largest)[how];
    std::printf("  %-10s %14s %10.3f ms\n", word.c_str(), text_of(cost.kept).c_str(), cost.milliseconds);
  }
  std::printf("memory: gradient_checkpointing: %s takes %s of %s\n", chosen.c_str(),
              text_of(most_bytes(costs, choice)).c_str(), text_of(budget).c_str());
}

// Measures the memory of a step with the configured gradient_checkpointing.
int64_t measured_bytes(const TrainerConfig& config, sharding::Bootstrap& bootstrap) {
  const StepCosts costs = measure_layers(config, bootstrap);
  LayerChoice choice;
  for (size_t i = 0; i < costs.layers.size(); ++i) {
    choice.push_back(config.gradient_checkpointing.of(static_cast<int64_t>(i)));
  }
  return most_bytes(costs, choice);
}

// Throws if the configured gradient_checkpointing does not fit, or that of a resumed run, whose micro_batch, ranks or
// sharding may have changed. The prediction decides. If there is none, or if it is too near to the budget, a trial
// decides. The choice of an earlier trial is refused only by a trial.
void require_fits(const LoadedConfig& loaded, int64_t budget, bool goes_on, sharding::Bootstrap& bootstrap) {
  const TrainerConfig& config = loaded.config;
  const auto table = declared_model(config).groups;
  const std::optional<StepTrace> step = trace_step(config);
  bool by_trial = !step;
  int64_t bytes = step ? sum_of(peak_memory(config, table, *step)) : 0;
  const bool is_sure = !goes_on && static_cast<double>(bytes) >= kSure * static_cast<double>(budget);
  if (by_trial || (bytes > budget && !is_sure)) {
    by_trial = true;
    bytes = measured_bytes(config, bootstrap);
  }
  const std::string takes = "gradient_checkpointing: " + value_of(loaded, "gradient_checkpointing") + " takes " +
                            text_of(bytes) + (by_trial ? " in a trial" : " as predicted");
  if (bytes <= budget) {
    if (bootstrap.rank() == 0) std::printf("memory: %s, of %s\n", takes.c_str(), text_of(budget).c_str());
    return;
  }
  const auto note = [&](const TrainerConfig& changed) -> std::optional<std::string> {
    if (goes_on && !differences_that_forbid_resuming(loaded.resolved(), changed).empty()) return std::nullopt;
    const std::optional<StepTrace> changed_step = trace_step(changed);
    if (!changed_step) return "";
    const int64_t then = sum_of(peak_memory(changed, table, *changed_step));
    return then < bytes ? std::optional(text_of(then)) : std::nullopt;
  };
  throw Error(ExitCode::out_of_memory, "memory: " + text_of(budget) + " do not hold a step: " + takes + "\n" +
                                           memory_table(config, table, step) + what_needs_less(config, note) +
                                           (goes_on ? "\na run that goes on keeps the gradient_checkpointing that "
                                                      "memory picked as it began"
                                                    : "\nwithout gradient_checkpointing, memory picks what fits"));
}

}  // namespace

void settle_memory(LoadedConfig& loaded, sharding::Bootstrap& bootstrap) {
  TrainerConfig& config = loaded.config;
  if (!config.memory) return;
  const auto budget = static_cast<int64_t>(*config.memory * kGibibyte);
  if (!is_none(config.gradient_checkpointing)) {
    return require_fits(loaded, budget, /*goes_on=*/false, bootstrap);
  }
  const auto source = [](const std::string& name) {
    return configs::Place{std::make_shared<configs::Source>(configs::Source{.name = name, .text = ""}), 0, 0};
  };
  const std::string earlier = bootstrap.broadcast(bootstrap.rank() == 0 ? earlier_choice(config) : "", 0);
  if (!earlier.empty()) {
    config.gradient_checkpointing = parse_trainer_config("resolved.yaml", loaded.resolved(),
                                                         {"gradient_checkpointing=" + earlier, "fault={do: none}"})
                                        .config.gradient_checkpointing;
    loaded.places["gradient_checkpointing"] = source("memory, as this run began");
    return require_fits(loaded, budget, /*goes_on=*/true, bootstrap);
  }
  const StepCosts costs = measure_layers(config, bootstrap);
  const auto choice = cheapest_that_fits(costs, budget);
  if (!choice) {
    throw Error(ExitCode::out_of_memory,
                "memory: " + text_of(budget) + " do not hold a step, which needs at least " +
                    text_of(least_bytes(costs)) + ", " + text_of(costs.standing) +
                    " of it for parameters, optimizer and data, " + text_of(costs.head) +
                    " for head and loss; a smaller micro_batch, kernels.linear_cross_entropy or more ranks need less");
  }
  config.gradient_checkpointing = as_config(*choice);
  loaded.places["gradient_checkpointing"] = source("memory");
  if (bootstrap.rank() == 0) print(costs, *choice, budget, value_of(loaded, "gradient_checkpointing"));
}

}  // namespace strata::trainer
