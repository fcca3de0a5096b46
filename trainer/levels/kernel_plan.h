// SPDX-License-Identifier: MIT
// A plan: the levels that were measured to be the fastest for one model on one device, which `best` stands for.
#pragma once

#include <string>
#include <vector>

#include "modules/config/kernels_config.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// One op at one shape and level. Microseconds; absent where it did not agree or cannot run, which `not_timed` says.
struct PlanRow {
  std::string op, shape;
  kernels::Level level = kernels::Level::aten;
  int64_t uses = 1;
  std::optional<double> forward = {}, backward = {};
  double error = 0;
  std::string not_timed = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("op", op, "name of the op");
    fields.require("shape", shape, "at which it was timed");
    fields.require("level", level, "at which it was timed");
    fields.add("uses", uses, "calls in a micro-batch, or updates in a step", configs::kPositive);
    fields.add_optional("forward", forward, "microseconds", configs::kNonNegative);
    fields.add_optional("backward", backward, "microseconds", configs::kNonNegative);
    fields.add("error", error, "largest error as a share of what is allowed", configs::kNonNegative);
    fields.add("not_timed", not_timed, "why there is no time");
  }
};

struct PlannedLevels : modules::OpLevels {
  template <class Fields>
  void describe(Fields& fields) {
    modules::describe(*this, fields);
  }
};

struct KernelPlan {
  std::string config = {}, device = {}, torch = {}, kernels = {}, model = {};
  PlannedLevels levels = {};
  std::vector<PlanRow> measured = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("config", config, "file whose shapes were timed");
    fields.require("device", device, "on which they were timed");
    fields.require("torch", torch, "version of LibTorch");
    fields.require("kernels", kernels, "version of the kernels: a hash of their sources");
    fields.require("model", model, "hash of the model, its dtype and its micro-batch");
    fields.section("levels", levels, "what is best");
    fields.sections("measured", measured, "what that follows from");
  }
};

// Strict, as configurations are.
KernelPlan read_kernel_plan(const std::string& path);
std::string yaml(const KernelPlan& plan);

// What times depend on, of a configuration: 16 hexadecimal digits. What is in its files is not looked at.
std::string model_version(const TrainerConfig& config);

// Who is about to run.
struct PlanReader {
  std::string device, torch, kernels;
};

// Where `kernels.default` is best: the levels of its plan for every op that no line names, with the plan as their
// origin. Lines for layers and modules stand above it as above any level for all. Refuses a missing plan, and one of
// another device, LibTorch, kernels or model, naming both.
void apply_kernel_plan(LoadedConfig& loaded, const PlanReader& reader);

// Refuses a plan that was applied and has no level of an op of the model. `modules` are those of declared_model() with
// the plan, which decides whether head and loss are one op.
void require_complete_plan(const LoadedConfig& loaded, const std::vector<modules::Module>& modules);

}  // namespace strata::trainer
