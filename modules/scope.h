// SPDX-License-Identifier: MIT
// Where a module is constructed: its name, where its parameters come from, and the level of each op that it computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"
#include "modules/config/parameter.h"

namespace strata::modules {

using at::Tensor;

// Parameters that are gathered together.
struct Group {
  std::string name;  // root, blocks.3, head
  Role role = Role::root;
};

// Is told everything that a model is made of, in the order in which its constructors ask for it. Sources are in
// modules/model_sources.h.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // A leaf that requires gradients. Its data may be absent until the layer that uses it runs, and a source that only
  // declares returns an undefined tensor: constructors keep the tensor and never read or copy it.
  virtual Tensor parameter(const Group& group, const Parameter& parameter) = 0;
  // `op`: key in `kernels:`, a literal. Called for each op that a module computes, for some more than once.
  virtual void op(const Group& group, const std::string& module, std::string_view op, kernels::Level level) = 0;
};

// A module and its group. Constructors take a scope and keep none: the source and the configuration may be gone when
// the model computes.
class Scope {
 public:
  // The model itself, whose group is the root.
  Scope(ModelSource& source, const KernelsConfig& kernels) : source_(&source), kernels_(&kernels) {}

  // blocks.3 / "attention" is blocks.3.attention, in the same group. An empty part is the scope itself.
  Scope operator/(std::string_view part) const;
  // A part that is a layer: its parameters are a group of their own, which has its name.
  Scope layer(std::string_view part) const;
  // A part after the layers: all of these are in the group `head`.
  Scope head(std::string_view part) const;

  // A parameter by its name in the module: {"weight", {outputs, inputs}, Initialization::normal}. The order of these
  // calls is the order of the parameters in the buffers of their group.
  Tensor parameter(Parameter parameter) const;

  // The level of an op, by its key in `kernels:`. A constructor asks only for what its module computes, because this is
  // how the table of ops by module comes about.
  kernels::Level level(std::string_view op) const;

 private:
  ModelSource* source_;
  const KernelsConfig* kernels_;
  std::string name_;  // empty: the model
  Group group_ = {"root", Role::root};
};

}  // namespace strata::modules
