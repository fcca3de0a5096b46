// SPDX-License-Identifier: MIT
#include "tools/generation/chosen_kernels.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/text/joined.h"
#include "kernels/level_matrix.h"
#include "kernels/runtime/device_name.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/levels/level_check.h"
#include "trainer/tasks/declared_model.h"

namespace strata::generation {
namespace {

using kernels::Level;
using modules::DeclaredModule;
using trainer::FloatType;
using trainer::LoadedConfig;

FloatType float_type(const at::TensorOptions& options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  return type == at::kBFloat16 ? FloatType::bfloat16 : type == at::kHalf ? FloatType::float16 : FloatType::float32;
}

// Returns what generation computes of a run: whole rows in one type, without a loss and an update.
LoadedConfig generation_of(LoadedConfig run, const at::TensorOptions& options) {
  trainer::PrecisionConfig& precision = run.config.precision;
  precision = {.compute = float_type(options), .linear = precision.linear};
  run.config.data = {};  // joined documents
  run.config.sharding.sequence = 1;
  run.config.run.deterministic = false;
  return run;
}

std::vector<DeclaredModule> modules_of(const LoadedConfig& loaded) {
  std::vector<DeclaredModule> modules = trainer::declared_model(loaded.config).modules;
  modules.erase(modules.begin());  // the loss and the update
  for (DeclaredModule& module : modules) std::erase(module.ops, "dropout");
  return modules;
}

// Removes the levels of ops that generation does not compute.
void keep_computed_ops(modules::KernelsConfig& kernels, const std::vector<DeclaredModule>& modules) {
  std::set<std::string_view> computed;
  for (const DeclaredModule& module : modules) computed.insert(module.ops.begin(), module.ops.end());
  kernels.levels.each([&](std::string_view op, std::optional<Level>& level) {
    if (!computed.contains(op)) level.reset();
  });
}

LoadedConfig at_level(Level level, const LoadedConfig& run, const at::TensorOptions& options) {
  LoadedConfig loaded = generation_of(run, options);
  loaded.config.kernels = {.default_level = level};
  const auto source = std::make_shared<configs::Source>(
      configs::Source{.name = "--kernels " + std::string(name(level)), .text = "", .is_override = true});
  loaded.places["kernels.default"] = {source, 0, 0};
  return loaded;
}

// The plan is of training in the compute type of the run, also if its weights are of another type here.
LoadedConfig at_planned_levels(LoadedConfig run, const at::TensorOptions& options) {
  run.config.kernels = {.default_level = std::nullopt, .plan = run.config.kernels.plan};
  const std::vector<DeclaredModule> all = trainer::declared_model(run.config).modules;
  trainer::apply_kernel_plan(
      run, {kernels::device_name(options.device()), kernels::torch_version(), kernels::kernel_version(), all});
  trainer::require_complete_plan(run, trainer::declared_model(run.config).modules);
  LoadedConfig loaded = generation_of(std::move(run), options);
  loaded.config.kernels.levels.linear_cross_entropy.reset();  // it is a loss
  keep_computed_ops(loaded.config.kernels, modules_of(loaded));
  return loaded;
}

void check(const LoadedConfig& loaded, at::Device device) {
  trainer::check_levels(loaded, modules_of(loaded), kernels::target_of(device));
}

std::string levels_of_all_ops(const LoadedConfig& run, const at::TensorOptions& options) {
  std::vector<std::string> levels;
  for (size_t i = 0; i < kernels::kLevelNames.size(); ++i) {
    try {
      check(at_level(static_cast<Level>(i), run, options), options.device());
      levels.emplace_back(kernels::kLevelNames[i]);
    } catch (const Error&) {
    }
  }
  return joined(levels, " or --kernels ");
}

}  // namespace

std::optional<modules::KernelsConfig> chosen_kernels(const std::string& choice, const LoadedConfig& run,
                                                     const at::TensorOptions& options) {
  if (choice == "auto") return std::nullopt;
  const auto found = std::ranges::find(kernels::kLevelNames, choice);
  const bool is_level = found != kernels::kLevelNames.end();
  const LoadedConfig loaded = is_level
                                  ? at_level(static_cast<Level>(found - kernels::kLevelNames.begin()), run, options)
                                  : at_planned_levels(run, options);
  try {
    check(loaded, options.device());
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + "all ops of this model run with --kernels " +
                                  levels_of_all_ops(run, options) +
                                  "; without --kernels, levels are chosen for each op");
  }
  return loaded.config.kernels;
}

}  // namespace strata::generation
