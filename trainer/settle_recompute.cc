// SPDX-License-Identifier: MIT
#include "trainer/settle_recompute.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/word_of.h"
#include "sharding/process/failure.h"
#include "trainer/levels/pattern_check.h"
#include "trainer/prediction/out_of_memory.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/recompute_choice.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/report/folder_contents.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

constexpr double kGibibyte = 1 << 30;

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

// Returns, as YAML, the gradient_checkpointing that the run in this folder chose at its start. Returns an empty text if
// no run in this folder has trained, or if that run has another configuration.
std::string earlier_choice(TrainerConfig now) {
  const std::string path = now.run.folder + "/resolved.yaml";
  try {
    const FolderContents found = contents_of(now.run.folder);
    if (!found.holds_run()) return "";
    const LoadedConfig before = load_trainer_config(path, {"fault={kind: none}"});
    now.gradient_checkpointing = before.config.gradient_checkpointing;
    if (difference_from_folder(now, path, found.newest_checkpoint).empty())
      return value_of(before, "gradient_checkpointing");
  } catch (const std::exception&) {
    // The code that claims the folder reports errors of its files.
  }
  return "";
}

configs::Place place_of(const std::string& source) {
  return {std::make_shared<configs::Source>(configs::Source{.name = source, .text = ""}), 0, 0};
}

std::string bytes_text(int64_t bytes) {
  const bool large = static_cast<double>(bytes) >= kGibibyte;
  return formatted("%.3f %s", static_cast<double>(bytes) / (large ? kGibibyte : 1 << 20), large ? "GiB" : "MiB");
}

std::string step_text(const PredictedStep& step) {
  return bytes_text(step.needed()) + (step.margin > 0 ? " (" + bytes_text(step.margin) + " of it in reserve)" : "");
}

// Traces steps of a run on all ranks, because each rank has other parts of a graph.
class Predictor {
 public:
  Predictor(TrainerConfig config, sharding::RankSession& session)
      : config_(std::move(config)), session_(session), memory_(config_), task_(task_to_trace(config_)) {}

  // Collective. Returns the prediction of the rank that needs the most.
  PredictedStep operator()(const GradientCheckpointing& checkpointing) {
    config_.gradient_checkpointing = checkpointing;
    own_ = trace_step(config_, *task_, session_.rank());
    std::ostringstream own;
    own << sum_of(memory_.classes(own_)) << ' ' << memory_.margin(own_) << ' ' << own_.backward_of.value_or(-1);
    PredictedStep most;
    int rank = 0;
    for (const std::string& text : session_.gather(own.str())) {
      std::istringstream in(text);
      PredictedStep step;
      int64_t layer = -1;
      in >> step.bytes >> step.margin >> layer;
      if (layer >= 0) step.backward_of = layer;
      if (step.needed() > most.needed()) most = step, peak_rank_ = rank;
      ++rank;
    }
    return most;
  }

  // The last prediction by class, of the rank that needs the most. Collective.
  std::string table() const { return session_.broadcast(memory_.table(own_), peak_rank_); }
  // Returns the bytes that the largest layer of this rank keeps in the last prediction.
  int64_t kept_by_a_layer() const { return std::ranges::max(own_.kept_by_layer); }

  int64_t layers() const { return modules::layer_count(config_.model); }

 private:
  TrainerConfig config_;
  sharding::RankSession& session_;
  const PeakMemory memory_;  // gradient_checkpointing, which changes, is not a part of it
  const std::unique_ptr<Task> task_;
  StepTrace own_;
  int peak_rank_ = 0;  // the rank that needs the most memory
};

// Throws if gradient_checkpointing is predicted not to fit. In a resumed run (`goes_on`) this may be new, because
// micro_batch, ranks or sharding may have changed. There the margin is kept with which `memory_budget` chose the value.
// A value that the user has set needs no margin.
void require_fits(const LoadedConfig& loaded, int64_t budget, bool goes_on, sharding::RankSession& session) {
  Predictor predict(loaded.config, session);
  PredictedStep step = predict(loaded.config.gradient_checkpointing);
  if (!goes_on) step.margin = 0;
  const std::string takes = "gradient_checkpointing: " + value_of(loaded, "gradient_checkpointing") + " takes " +
                            step_text(step) + " as predicted";
  if (step.needed() <= budget) {
    if (session.rank() == 0) std::printf("memory_budget: %s, of %s\n", takes.c_str(), bytes_text(budget).c_str());
    return;
  }
  const auto note = [&](const TrainerConfig& changed) -> std::optional<std::string> {
    if (goes_on && !differences_that_forbid_resuming(loaded.resolved(), changed, /*steps_done=*/0).empty())
      return std::nullopt;
    if (!refused_levels_of_attention(attention_of_run(changed), changed.kernels, changed.precision).empty())
      return std::nullopt;
    const std::optional<StepTrace> changed_step = trace_step_without_data(changed);
    if (!changed_step) return "";
    const int64_t changed_sum = sum_of(PeakMemory(changed).classes(*changed_step));
    return changed_sum < step.bytes ? std::optional(bytes_text(changed_sum)) : std::nullopt;
  };
  throw Error(ExitCode::out_of_memory,
              "memory_budget: " + bytes_text(budget) + " do not hold a step: " + takes + "\n" + predict.table() +
                  what_needs_less(loaded.config, note) +
                  (goes_on ? "\na resumed run keeps the gradient_checkpointing that memory_budget "
                             "picked when it began"
                           : "\nwithout gradient_checkpointing, memory_budget picks what fits"));
}

// Sets the cheapest gradient_checkpointing that fits. Rank 0 prints what was tried for all layers, and the choice.
void choose(LoadedConfig& loaded, int64_t budget, sharding::RankSession& session) {
  Predictor predict(loaded.config, session);
  std::string tried = "memory_budget: what a step takes, and what its largest layer keeps\n";
  const RecomputeChoice choice =
      cheapest_that_fits(predict.layers(), budget, [&](const GradientCheckpointing& checkpointing) {
        const PredictedStep step = predict(checkpointing);
        if (const Recompute* how = std::get_if<Recompute>(&checkpointing.layers)) {
          tried += formatted("  %-10s %14s %14s\n", word_of(*how).c_str(), bytes_text(step.needed()).c_str(),
                             bytes_text(predict.kept_by_a_layer()).c_str());
        }
        return step;
      });
  loaded.config.gradient_checkpointing = choice.checkpointing;
  loaded.places["gradient_checkpointing"] = place_of("memory_budget");
  const std::string chosen = "gradient_checkpointing: " + value_of(loaded, "gradient_checkpointing");
  if (choice.step.needed() > budget) {
    predict(choice.checkpointing);  // because the table is of the last prediction
    throw Error(ExitCode::out_of_memory,
                "memory_budget: " + bytes_text(budget) + " do not hold a step, which needs at least " +
                    step_text(choice.step) + " with " + chosen + "\n" + predict.table() +
                    "a smaller micro_batch, kernels.linear_cross_entropy or more ranks need less");
  }
  if (session.rank() > 0) return;
  std::printf("%smemory_budget: %s takes %s of %s\n", tried.c_str(), chosen.c_str(), step_text(choice.step).c_str(),
              bytes_text(budget).c_str());
}

}  // namespace

void settle_recompute(LoadedConfig& loaded, sharding::RankSession& session) {
  TrainerConfig& config = loaded.config;
  if (!config.memory_budget) return;
  sharding::set_position(0, "prediction of memory");
  const auto budget = static_cast<int64_t>(*config.memory_budget * kGibibyte);
  if (!is_none(config.gradient_checkpointing)) {
    return require_fits(loaded, budget, /*goes_on=*/false, session);
  }
  const std::string earlier = session.broadcast(session.rank() == 0 ? earlier_choice(config) : "", 0);
  if (!earlier.empty()) {
    config.gradient_checkpointing = parse_trainer_config("resolved.yaml", loaded.resolved(),
                                                         {"gradient_checkpointing=" + earlier, "fault={kind: none}"})
                                        .config.gradient_checkpointing;
    loaded.places["gradient_checkpointing"] = place_of("memory_budget, as this run began");
    return require_fits(loaded, budget, /*goes_on=*/true, session);
  }
  choose(loaded, budget, session);
}

}  // namespace strata::trainer
