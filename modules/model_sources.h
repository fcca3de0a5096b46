// SPDX-License-Identifier: MIT
// Sources of parameters for a model. One records what a model declares; the other one finds parameters by name.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/config/module.h"
#include "modules/config/parameter_group.h"
#include "modules/scope.h"

namespace strata::modules {

// Records what constructors ask for and returns undefined tensors. Such a model computes nothing.
class DeclaringSource : public ModelSource {
 public:
  Tensor parameter(const Group& group, const Parameter& parameter) override;
  void op(const Group& group, const std::string& module, std::string_view op, kernels::Level level) override;
  void product(const Group& group, const std::string& module, const DeclaredLinear& product) override;

  // Groups are in the order of construction.
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  // A module comes before its parts.
  const std::vector<DeclaredModule>& modules() const { return modules_; }

 private:
  DeclaredModule& module(const Group& group, const std::string& name);

  std::vector<ParameterGroup> groups_;
  std::vector<DeclaredModule> modules_;
  std::map<std::string, size_t> place_of_group_, place_of_module_;
};

// Returns parameters that another object owns. Throws if the shape of a parameter is not what the model asks for.
class BindingSource : public ModelSource {
 public:
  using ScalesOf = std::function<kernels::DelayedScales(const std::string& module)>;
  // Without `scales_of`, scales that are delayed follow from the values at hand. Without `prunes`, weights with
  // sparsity are pruned, whatever its first step.
  explicit BindingSource(std::function<Tensor(const std::string& name)> find, ScalesOf scales_of = {},
                         std::shared_ptr<const bool> prunes = nullptr)
      : find_(std::move(find)), scales_of_(std::move(scales_of)), prunes_(std::move(prunes)) {}

  Tensor parameter(const Group& group, const Parameter& parameter) override;
  void op(const Group&, const std::string&, std::string_view, kernels::Level) override {}
  kernels::DelayedScales delayed_scales(const std::string& module) override {
    return scales_of_ ? scales_of_(module) : kernels::DelayedScales{};
  }
  std::shared_ptr<const bool> prunes() override { return prunes_; }

 private:
  std::function<Tensor(const std::string& name)> find_;
  ScalesOf scales_of_;
  std::shared_ptr<const bool> prunes_;
};

}  // namespace strata::modules
