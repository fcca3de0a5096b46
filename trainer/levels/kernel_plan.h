// SPDX-License-Identifier: MIT
// A plan: the levels that were measured to be the fastest for one model on one device, which `best` stands for, and the
// linear layers that are not faster in the number format of the run.
#pragma once

#include <string>
#include <vector>

#include "modules/config/kernels_config.h"
#include "trainer/config/load_config.h"
#include "trainer/levels/format_choice.h"

namespace strata::trainer {

// One op at one shape and level, in microseconds. A level that did not agree or cannot run has no time; `not_timed`
// says why.
struct PlanRow {
  std::string op, shape;
  kernels::Level level = kernels::Level::aten;
  int64_t uses = 1;
  std::optional<double> forward = {}, backward = {};
  double error = 0;
  std::string not_timed = {};
  std::string key = {};  // the key of `kernels:` that covers the op; empty: its own name

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
    fields.add("key", key, "key of kernels that covers the op; empty: its own name");
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
  std::vector<std::string> keep = {};
  std::vector<FormatRow> formats = {};
  std::vector<PlanRow> measured = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("config", config, "file whose shapes were timed");
    fields.require("device", device, "on which they were timed");
    fields.require("torch", torch, "version of LibTorch");
    fields.require("kernels", kernels, "version of the kernels: a hash of their sources");
    fields.require("model", model, "hash of the model, its dtype and its micro-batch");
    fields.section("levels", levels, "what is best");
    fields.add("keep", keep,
               "modules that multiply in precision.compute, because precision.linear is not faster there");
    fields.sections("formats", formats, "what `keep` follows from");
    fields.sections("measured", measured, "what `levels` follows from");
  }
};

// Reads a plan as strictly as a configuration is read.
KernelPlan read_kernel_plan(const std::string& path);
std::string yaml(const KernelPlan& plan);

// Returns a hash of the keys on which times depend, as 16 hexadecimal digits. Of `sparsity` only what changes the ops
// of a step counts. `modules`, as they are declared, are needed with sparsity. The contents of data files are not
// hashed.
std::string model_version(TrainerConfig config, const std::vector<modules::DeclaredModule>& modules = {});

// The device and the versions of the run that reads a plan, and the modules of its model, which are needed with
// sparsity.
struct PlanReader {
  std::string device, torch, kernels;
  std::vector<modules::DeclaredModule> modules = {};
};

// Returns the command that measures a plan for this run, with the overrides on which a plan depends.
std::string command_for_plan(const LoadedConfig& loaded);

// If `kernels.default` is best, sets the level of every op that no line for all layers names, and gives the plan as its
// origin. Lines for layers and modules win over these levels as usual. Where the plan sets the level of linear, it also
// adds its `keep` to precision.linear.keep. Refuses a missing plan, and a plan of another device, LibTorch, kernels
// or model, with both values. Returns a sentence about the layers that it keeps; empty if there are none.
std::string apply_kernel_plan(LoadedConfig& loaded, const PlanReader& reader);

// Refuses a plan that was applied and has no level of an op of the model, or keeps a module that it does not have.
// `modules` comes from declared_model() with the plan, which decides whether head and loss are one op.
void require_complete_plan(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules);

}  // namespace strata::trainer
