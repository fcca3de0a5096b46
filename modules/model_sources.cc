// SPDX-License-Identifier: MIT
#include "modules/model_sources.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "modules/config/module_name.h"

namespace strata::modules {

Tensor DeclaringSource::parameter(const Group& group, const Parameter& parameter) {
  const auto [place, is_new] = place_of_group_.emplace(group.name, groups_.size());
  if (is_new) groups_.push_back({group.name, group.role, {}});
  groups_[place->second].parameters.push_back(parameter);
  module(group, parameter.name.substr(0, parameter.name.rfind('.')));
  return {};
}

void DeclaringSource::op(const Group& group, const std::string& name, std::string_view op, kernels::Level /*level*/) {
  std::vector<std::string_view>& ops = module(group, name).ops;
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
}

void DeclaringSource::product(const Group& group, const std::string& name, const DeclaredLinear& product) {
  module(group, name).product = product;
}

DeclaredModule& DeclaringSource::module(const Group& group, const std::string& name) {
  const auto found = place_of_module_.find(name);
  if (found != place_of_module_.end()) return modules_[found->second];
  // A containing module comes before the modules in it. A layer counts as part of no other module.
  const std::string whole = name.substr(0, std::min(name.rfind('.'), name.size()));
  if (whole != name && layer_of(whole) == layer_of(name)) module(group, whole);
  place_of_module_[name] = modules_.size();
  return modules_.emplace_back(DeclaredModule{name, group.name});
}

Tensor BindingSource::parameter(const Group& /*group*/, const Parameter& parameter) {
  Tensor found = find_(parameter.name);
  TORCH_CHECK(found.sizes() == parameter.shape, "the model asks for ", parameter.name, " of shape ",
              at::IntArrayRef(parameter.shape), ", and there is one of shape ", found.sizes());
  return found;
}

}  // namespace strata::modules
