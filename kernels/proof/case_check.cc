// SPDX-License-Identifier: MIT
#include "kernels/proof/case_check.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

namespace strata::kernels {
namespace {

constexpr Level kFormulaLevel = Level::torchscript;

at::ScalarType coarser(at::ScalarType a, at::ScalarType b) { return unit_roundoff(a) > unit_roundoff(b) ? a : b; }

std::vector<NamedSetting> each_gradient(const OpCase& op_case) {
  std::vector<NamedSetting> settings;
  if (!op_case.differentiable) return settings;
  for (size_t i = 0; i < op_case.leaves.size(); ++i) {
    settings.push_back({"only the gradient of leaf " + std::to_string(i), {.only_leaf = i}});
  }
  return settings;
}

std::vector<NamedSetting> each_output(const OpCase& op_case) {
  std::vector<NamedSetting> settings;
  if (op_case.outputs < 2 || !op_case.differentiable) return settings;
  for (size_t i = 0; i < op_case.outputs; ++i) {
    settings.push_back({"only output " + std::to_string(i) + " has a gradient", {.only_output = i}});
  }
  return settings;
}

NamedSetting destination(bool add, at::ScalarType dtype) {
  return {std::string("weight gradients ") + (add ? "added to " : "written into ") + toString(dtype),
          {.destination = {true, add, dtype}}};
}

std::vector<NamedSetting> each_destination(const OpCase& op_case) {
  std::vector<NamedSetting> settings;
  if (op_case.weights == 0) return settings;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool add : {false, true}) settings.push_back(destination(add, dtype));
  }
  settings.push_back({"weight gradients added to unaligned BFloat16",
                      {.layout = Layout::unaligned, .destination = {true, true, at::kBFloat16}}});
  return settings;
}

}  // namespace

std::vector<NamedSetting> settings_of(Way way, const OpCase& op_case) {
  switch (way) {
    case Way::plain:
      return {{"contiguous inputs", {}}};
    case Way::strided:
      return {{"strided inputs", {.layout = Layout::strided}}};
    case Way::unaligned:
      return {{"unaligned inputs", {.layout = Layout::unaligned}}};
    case Way::nan_filled:
      return {{"new tensors that hold NaN", {}}};
    case Way::no_gradients:
      return {{"without gradients", {.no_gradients = true}}};
    case Way::one_gradient:
      return each_gradient(op_case);
    case Way::one_output:
      return each_output(op_case);
    case Way::destinations:
      return each_destination(op_case);
    case Way::added_gradients:
      if (op_case.weights == 0) return {};
      return {destination(/*add=*/true, at::kFloat)};
  }
  return {};  // unreachable: the switch is complete
}

WayScope::WayScope(Way way) : is_filled_(way == Way::nan_filled) {
  if (!is_filled_) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}

WayScope::~WayScope() {
  if (is_filled_) at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

CaseCheck::Formula& CaseCheck::formula(const Setting& setting) {
  Formula& formula = formulas_[setting.only_output];
  if (formula.exact.empty()) {
    Setting on_cpu{.only_output = setting.only_output, .variances_of = dtype_};
    formula.exact = evaluate(kernels::rounded(case_, dtype_), kFormulaLevel, on_cpu);
    on_cpu.dtype = dtype_;
    formula.rounded = evaluate(case_, kFormulaLevel, on_cpu);
  }
  return formula;
}

const Comparison& CaseCheck::comparison(Formula& formula, size_t place, const Bounds& bounds) {
  const Key key{place, bounds.dtype, bounds.factor, bounds.largest};
  const auto found = formula.comparisons.find(key);
  if (found != formula.comparisons.end()) return found->second;
  const Expected expected{formula.exact[place].value, formula.rounded[place].value, formula.exact[place].variance};
  return formula.comparisons.emplace(key, Comparison(expected, bounds)).first->second;
}

// A buffer rounds what it gets, and the sum with what is in it.
const Comparison& CaseCheck::comparison_in_buffer(const Formula& formula, size_t place, const Bounds& bounds,
                                                  const Setting& setting) {
  const Destination& destination = setting.destination;
  const BufferKey key{
      {place, bounds.dtype, bounds.factor, bounds.largest}, setting.only_output, destination.dtype, destination.add};
  const auto found = buffers_.find(key);
  if (found != buffers_.end()) return found->second;
  const double before = destination.add ? kBefore : 0.0;
  const Tensor sum = (formula.rounded[place].value + before).to(destination.dtype).to(at::kDouble);
  const Expected expected{formula.exact[place].value + before, sum, formula.exact[place].variance};
  return buffers_.emplace(key, Comparison(expected, bounds)).first->second;
}

std::vector<Deviation> CaseCheck::deviations(const std::vector<Value>& values, Level level, const Setting& setting,
                                             double chunks) {
  Formula& formula_values = formula(setting);
  const size_t expected = setting.no_gradients && case_.differentiable ? case_.outputs
                          : setting.only_leaf                          ? case_.outputs + 1
                                                                       : formula_values.exact.size();
  TORCH_CHECK(values.size() == expected, case_.name, " at level ", name(level), ": ", values.size(),
              " results and gradients, expected ", expected);
  const size_t first_weight = values.size() - case_.weights;
  std::vector<Deviation> found;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = setting.only_leaf && i == case_.outputs ? i + *setting.only_leaf : i;
    TORCH_INTERNAL_ASSERT(values[i].name == formula_values.exact[place].name);
    const bool is_weight = is_gradient(values[i].name) && i >= first_weight;
    const bool in_buffer = setting.destination.given && is_weight;
    Bounds bounds = bounds_of(values[i], tolerance_);
    if (in_buffer) bounds.dtype = coarser(bounds.dtype, dtype_);
    if (is_weight) bounds.factor *= std::sqrt(chunks);
    if (level == Level::aten) bounds.factor *= tolerance_.at_aten;
    const Comparison& comparison_of_value = in_buffer ? comparison_in_buffer(formula_values, place, bounds, setting)
                                                      : comparison(formula_values, place, bounds);
    found.push_back({values[i].name, comparison_of_value.agreement(values[i].value)});
  }
  return found;
}

}  // namespace strata::kernels
