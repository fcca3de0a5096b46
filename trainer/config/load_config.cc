// SPDX-License-Identifier: MIT
#include "trainer/config/load_config.h"

#include <algorithm>
#include <filesystem>
#include <variant>

#include "base/text/joined.h"
#include "configs/document.h"
#include "configs/manual.h"
#include "configs/new_names.h"
#include "configs/overrides.h"
#include "trainer/config/renamed_keys.h"

namespace strata::trainer {
namespace {

using configs::NodePtr;

// Sections and keys that may change when a run is resumed. Another micro_batch or sharding gives the same samples and
// weights, and other ranks or devices may need it.
const std::vector<std::string> kFreeSections = {"run", "micro_batch", "sharding", "checkpoint", "evaluation",
                                                "log", "profile",     "fault",    "cuda_graph"};
// These stay all the same: another seed is another run.
const std::vector<std::string> kHeldKeys = {"run.seed"};

const char kTitle[] = "Strata: the configuration of a run";

// describe() binds members by non-const reference, so listing works on a copy.
std::vector<configs::Line> lines_of(TrainerConfig config, const configs::Places& places) {
  return configs::list_values(configs::section_of(config), places);
}

// A run has written such a file, perhaps before a key was renamed.
bool is_saved(const std::string& path) { return std::filesystem::path(path).filename() == "resolved.yaml"; }

// `saved`: old names of keys are read as the new ones. They are errors otherwise, and in overrides.
LoadedConfig read(NodePtr document, bool saved, const std::vector<std::string>& overrides, configs::ErrorList& errors) {
  const bool well_formed = document != nullptr;
  if (!document) document = std::make_shared<configs::Node>(configs::Node{.kind = configs::Node::Kind::map});
  if (saved) document = configs::with_new_names(document, kRenamedKeys);
  for (const std::string& text : overrides) document = configs::apply_override(document, text, errors);
  LoadedConfig loaded;
  if (well_formed) {
    loaded.places = configs::read_document(*document, loaded.config, errors);
    configs::Checks checks([&](const std::string& path) { return errors.read_well(path); },
                           [&](const std::string& path, const std::string& message) {
                             configs::Place place = configs::place_of(loaded.places, path);
                             if (!place.source) place = document->place;
                             errors.add(place, path, message);
                           });
    check(loaded.config, checks);
  }
  errors.throw_if_any();
  return loaded;
}

LoadedConfig parse(const std::string& name, const std::string& text, bool saved,
                   const std::vector<std::string>& overrides) {
  configs::ErrorList errors;
  const auto source = std::make_shared<configs::Source>(configs::Source{.name = name, .text = text});
  return read(configs::parse_document(source, "", errors), saved, overrides, errors);
}

int64_t last_step_independent_of_total(const ScheduleConfig& config, int64_t steps) {
  return std::visit([&](const auto& schedule) { return schedule.last_step_independent_of_total(steps); }, config.type);
}

std::vector<std::string> differences(const LoadedConfig& before, const TrainerConfig& now, int64_t steps_done) {
  std::vector<std::string> free = kFreeSections;
  // After that step the rates of the steps done would have been others with another number of steps.
  const int64_t last = std::min(last_step_independent_of_total(before.config.schedule, before.config.steps),
                                last_step_independent_of_total(now.schedule, now.steps));
  if (last > 0 && steps_done <= last) free.push_back("steps");
  // All steps done are dense ones in both. Another sparsity has another plan, whose levels are keys of their own. An op
  // that the plan before leaves out is in none of the steps done, as an activation that was an epilogue.
  const bool was_dense = !before.config.sparsity.is_on_in(steps_done);
  if (was_dense && !now.sparsity.is_on_in(steps_done)) {
    free.push_back("sparsity");
    const modules::KernelsConfig& kernels = before.config.kernels;
    if (before.config.sparsity != now.sparsity && !kernels.default_level) {
      free.push_back("kernels.plan");
      if (!kernels.levels.activation) free.push_back("kernels.activation");
    }
  }
  std::vector<std::string> found = configs::differences(before.lines(), lines_of(now, {}), free, kHeldKeys);
  for (std::string& line : found) {
    if (was_dense && steps_done > 0 && line.starts_with("sparsity.pattern: ")) {
      line += "; with sparsity.from_step: " + std::to_string(steps_done + 1) + " or later, the saved step " +
              std::to_string(steps_done) + " would go on with pruned weights";
    }
    if (last == 0 || !line.starts_with("steps: ")) continue;
    line += "; the saved step " + std::to_string(steps_done) +
            " is in the decay of the schedule, and a checkpoint of step " + std::to_string(last) +
            " or an earlier one would go on";
  }
  return found;
}

}  // namespace

std::string LoadedConfig::resolved() const {
  TrainerConfig copy = config;
  return configs::resolved_yaml(configs::section_of(copy), places);
}

std::vector<configs::Line> LoadedConfig::lines() const { return lines_of(config, places); }

LoadedConfig load_trainer_config(const std::string& path, const std::vector<std::string>& overrides) {
  configs::ErrorList errors;
  return read(configs::load_document(path, errors), is_saved(path), overrides, errors);
}

LoadedConfig parse_trainer_config(const std::string& name, const std::string& text,
                                  const std::vector<std::string>& overrides) {
  return parse(name, text, is_saved(name), overrides);
}

std::vector<std::string> differences_that_forbid_resuming(const std::string& resolved_before, const TrainerConfig& now,
                                                          int64_t steps_done) {
  return differences(parse("the saved configuration", resolved_before, /*saved=*/true, {kNoFault}), now, steps_done);
}

std::string difference_from_folder(const TrainerConfig& now, const std::string& resolved_path, int64_t steps_done) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(resolved_path))) return "";
  return joined(differences(load_trainer_config(resolved_path, {kNoFault}), now, steps_done), "\n");
}

std::string help_text() {
  TrainerConfig scratch;
  return configs::help_text(configs::section_of(scratch));
}

std::string reference_page() {
  TrainerConfig scratch;
  return configs::reference_page(configs::section_of(scratch), kTitle);
}

std::string json_schema() {
  TrainerConfig scratch;
  return configs::json_schema(configs::section_of(scratch), kTitle);
}

}  // namespace strata::trainer
