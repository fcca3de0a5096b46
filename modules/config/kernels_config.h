// SPDX-License-Identifier: MIT
// The `kernels:` section: the level of each op in each layer and module.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/range.h"
#include "kernels/runtime/level.h"
#include "modules/config/op_keys.h"

namespace strata::kernels {

constexpr const auto& names(Level) { return kLevelNames; }  // the spelling of levels in configurations

}  // namespace strata::kernels

namespace strata::modules {

// One T for each key of `kernels:`, which is an op or stands for several: levels.rms_norm. The members are made from
// the list of ops in kernels/op.bzl, by header_of_ops in modules/config/BUILD.
template <class T>
struct PerOp : OpKeys<T> {
  // Calls visit(name, member) for each op.
  template <class Visit>
  void each(Visit&& visit) {
    this->each_of(*this, visit);
  }
  template <class Visit>
  void each(Visit&& visit) const {
    this->each_of(*this, visit);
  }

  // Returns null if there is no op of this name.
  const T* find(std::string_view op) const {
    const T* found = nullptr;
    each([&](std::string_view name, const T& member) {
      if (name == op) found = &member;
    });
    return found;
  }
};

using OpLevels = PerOp<std::optional<kernels::Level>>;  // absent: the earlier entries decide

template <class Fields>
void describe(OpLevels& levels, Fields& fields) {
  levels.each([&](const char* op, std::optional<kernels::Level>& level) {
    const bool is_fused_head = &level == &levels.linear_cross_entropy;
    fields.add_optional(op, level,
                        std::string("level of ") + op + (is_fused_head ? ", which fuses output layer and loss" : ""));
  });
}

// Description of `only` in an entry for some layers.
inline constexpr const char* kOnlyLayers =
    "layers for which this entry holds: 3, 0-3 inclusive, or 0-30 step 2, counted from 0";

struct LayerKernels {
  configs::Range only = {};
  OpLevels levels;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("only", only, kOnlyLayers);
    modules::describe(levels, fields);
  }
};

struct ModuleKernels {
  std::string only = {};
  OpLevels levels;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("only", only,
                   "module for which this entry holds, including its parts; named as in parameter names: head, mlp (in "
                   "all layers), blocks.3.mlp or blocks.0-3.attention.qkv");
    modules::describe(levels, fields);
  }
};

struct KernelsConfig {
  std::optional<kernels::Level> default_level = kernels::Level::aten;  // absent: `best`
  bool planned = false;   // true: the levels of the plan were copied into `levels`; an op without a level there is not
                          // used by the model
  std::string plan = {};  // path of the file with the measured levels for `best`
  std::optional<int64_t> architecture = {};  // the compute capability that code is chosen for; absent: the GPU's
  OpLevels levels = {};                      // for all layers
  std::vector<LayerKernels> layers = {};     // later entries win
  std::vector<ModuleKernels> modules = {};   // they win over `layers`; later entries win over earlier ones

  template <class Fields>
  void describe(Fields& fields) {
    fields.add_or_word("default", default_level, "best",
                       "level of every op that no other key sets, except linear_cross_entropy; best: the fastest level "
                       "of each op in a measured plan");
    fields.add("plan", plan,
               "file with the measured plan for default: best, written by tools/strata plan CONFIG; empty: "
               "tools/strata train finds or measures it");
    fields.add_optional("architecture", architecture,
                        "80: levels cuda and triton run the code for GPUs from compute capability 8.0 on newer GPUs "
                        "too, and levels that have no such code are refused; unset: the code for the GPU");
    modules::describe(levels, fields);
    fields.sections("layers", layers, "levels of ops in some layers; later entries win");
    fields.sections("modules", modules,
                    "levels of ops in modules by name; they win over layers, and later entries win");
  }
};

}  // namespace strata::modules
