// SPDX-License-Identifier: MIT
#include "modules/scope.h"

#include "modules/config/kernel_selection.h"
#include "modules/config/module_name.h"

namespace strata::modules {

Scope Scope::operator/(std::string_view part) const {
  Scope result = *this;
  result.name_ = joined_name(name_, part);
  return result;
}

Scope Scope::layer(std::string_view part) const {
  Scope result = *this / part;
  result.group_ = {result.name_, Role::layer};
  return result;
}

Scope Scope::head(std::string_view part) const {
  Scope result = *this / part;
  result.group_ = {"head", Role::head};
  return result;
}

Tensor Scope::parameter(Parameter parameter) const {
  parameter.name = joined_name(name_, parameter.name);
  return source_->parameter(group_, parameter);
}

kernels::Level Scope::level(std::string_view op) const {
  const kernels::Level level = level_for(*kernels_, name_, op);
  source_->op(group_, name_, op, level);
  return level;
}

std::optional<kernels::ProductFormats> Scope::product_formats(const DeclaredLinear& product) const {
  source_->product(group_, name_, product);
  return formats_ == nullptr ? std::nullopt : formats_->of(name_);
}

kernels::DelayedScales Scope::delayed_scales() const {
  if (formats_ == nullptr || !formats_->delays() || !formats_->of(name_)) return {};
  return source_->delayed_scales(name_);
}

}  // namespace strata::modules
