// SPDX-License-Identifier: MIT
#include "tools/bench/modules/module_measurement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "kernels/level_matrix.h"
#include "kernels/proof/agreement.h"
#include "modules/model_sources.h"
#include "tools/bench/modules/best_levels.h"
#include "tools/bench/single_level_kernels.h"

namespace strata::tools {
namespace {

using kernels::Level;
using modules::KernelsConfig;
using modules::Scope;

// A module stores several results in 16 bits on the way to its output, and a level stores others than the plain code.
constexpr double kFactor = 2;
// In fp32 a level adds in another order, over as many terms as the longest sum of the module has.
constexpr double kFewestRoundings = 64;

Tensor leaf(const Tensor& values, at::ScalarType dtype) {
  return values.to(values.device(), dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
}

Tensor random_parameter(const modules::Parameter& parameter, const at::TensorOptions& options) {
  const Tensor values = at::randn(parameter.shape, options);
  if (parameter.shape.size() > 1) return values / std::sqrt(static_cast<double>(parameter.shape[1]));
  return values * 0.1 + (parameter.initialization == modules::Initialization::ones ? 1.0 : 0.0);
}

// Parameters of the plain code, with values of the module's.
Parameters separated(const ModuleCase& module, const Parameters& packed, at::ScalarType dtype) {
  Parameters parameters;
  for (const auto& [name, values] : packed) {
    int64_t first = 0;
    for (const auto& [part, rows] : separate_parameters(module, name, values.size(0))) {
      parameters[part] = leaf(values.detach().narrow(0, first, rows), dtype);
      first += rows;
    }
  }
  return parameters;
}

// Evaluates the plain code and packs the gradients of its parameters as the module has them.
std::vector<Tensor> evaluate_naive(const ModuleCase& module, const ModuleInputs& packed, at::ScalarType dtype) {
  const ModuleInputs inputs{separated(module, packed.parameters, dtype), leaf(packed.x.detach(), dtype),
                            packed.grad_y.to(dtype)};
  const std::vector<Tensor> results =
      evaluate([&](const Tensor& x) { return module.naive(inputs.parameters, x); }, inputs);
  Parameters gradients;
  size_t place = 2;
  for (const auto& [name, parameter] : inputs.parameters) gradients[name] = results[place++];
  std::vector<Tensor> joined = {results[0], results[1]};
  for (const auto& [name, parameter] : packed.parameters) {
    std::vector<Tensor> parts;
    for (const auto& [part, rows] : separate_parameters(module, name, parameter.size(0))) {
      parts.push_back(gradients.at(part));
    }
    joined.push_back(at::cat(parts));
  }
  return joined;
}

}  // namespace

ModuleWorkload::ModuleWorkload(ModuleCase module, at::ScalarType dtype, at::Device device)
    : module_(std::move(module)), dtype_(dtype), device_(device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const KernelsConfig any_levels;
  modules::DeclaringSource declared;
  module_.construct(Scope(declared, any_levels));
  for (const modules::ParameterGroup& group : declared.groups()) {
    for (const modules::Parameter& parameter : group.parameters) {
      inputs_.parameters[parameter.name] = leaf(random_parameter(parameter, options), dtype);
    }
  }
  for (const modules::DeclaredModule& part : declared.modules()) ops_.insert(part.ops.begin(), part.ops.end());
  inputs_.x = leaf(at::randn(module_.input, options), dtype);
  const Tensor y = [&] {
    const c10::NoGradGuard no_gradients;
    return module_.naive(separated(module_, inputs_.parameters, dtype), inputs_.x);
  }();
  inputs_.grad_y = at::randn(y.sizes(), options).to(dtype);
  exact_ = evaluate_naive(module_, inputs_, at::kDouble);
  rounded_ = evaluate_naive(module_, inputs_, dtype);
}

ModuleMeasurement ModuleWorkload::measure(Level level) const {
  const SingleLevelKernels chosen = single_level_kernels(level, ops_, kernels::target_of(device_));
  if (!chosen.is_absent) return measure(chosen.kernels);
  return {.levels = levels_of_ops(chosen.kernels), .verdict = {.words = chosen.reason}, .is_absent = true};
}

ModuleMeasurement ModuleWorkload::measure_best() const {
  KernelsConfig best;
  try {
    const ModuleCase::Function run = built(best, inputs_.parameters);
    const LevelChoice chosen = best_levels([&] { run(inputs_.x); }, dtype_, device_);
    if (!chosen.impossible.empty()) {
      return {.verdict = {.words = "no level of " + chosen.impossible + " agrees at all shapes of the module"}};
    }
    best.levels = chosen.levels;
  } catch (const std::exception& error) {  // no memory
    return {.verdict = {.words = kernels::sentence_of(error)}};
  }
  return measure(best);
}

ModuleMeasurement ModuleWorkload::measure_naive() const {
  const BuildModule build = [&](const Parameters& parameters) -> ModuleCase::Function {
    return [this, parameters](const Tensor& x) { return module_.naive(parameters, x); };
  };
  ModuleMeasurement measurement;
  measurement.verdict.agreed = true;
  measurement.times = time_module(build, {separated(module_, inputs_.parameters, dtype_), inputs_.x, inputs_.grad_y});
  return measurement;
}

ModuleCase::Function ModuleWorkload::built(const KernelsConfig& kernels, const Parameters& parameters) const {
  modules::BindingSource source([&](const std::string& name) { return parameters.at(name); });
  return module_.construct(Scope(source, kernels));
}

std::map<std::string, std::string> ModuleWorkload::levels_of_ops(const KernelsConfig& kernels) const {
  std::map<std::string, std::string> levels;
  kernels.levels.each([&](std::string_view op, const std::optional<Level>& op_level) {
    if (ops_.contains(op)) levels[std::string(op)] = name(op_level.value_or(*kernels.default_level));
  });
  return levels;
}

ModuleMeasurement ModuleWorkload::measure(const KernelsConfig& kernels) const {
  ModuleMeasurement result = measure([&](const Parameters& parameters) { return built(kernels, parameters); });
  result.levels = levels_of_ops(kernels);
  return result;
}

ModuleMeasurement ModuleWorkload::measure(const BuildModule& build) const {
  ModuleMeasurement measurement;
  kernels::Verdict& verdict = measurement.verdict;
  const double terms = static_cast<double>(inputs_.x.numel() / inputs_.x.size(-1));
  try {
    const std::vector<Tensor> results = evaluate(build(inputs_.parameters), inputs_);
    auto name = inputs_.parameters.begin();
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string what = i == 0   ? "the output"
                               : i == 1 ? "the gradient of the input"
                                        : "the gradient of " + (name++)->first;
      const kernels::Bounds bounds{
          .dtype = dtype_, .factor = kFactor, .roundings = std::max(kFewestRoundings, std::sqrt(terms))};
      const kernels::Agreement agreement = kernels::agreement(results[i], {exact_[i], rounded_[i]}, bounds);
      verdict.share = std::max(verdict.share, agreement.share);
      if (agreement.agreed()) continue;
      verdict.words += (verdict.words.empty() ? "" : "; ") + what + " " + agreement.words;
    }
    verdict.agreed = verdict.words.empty();
    if (verdict.agreed) measurement.times = time_module(build, inputs_);
  } catch (const std::exception& error) {  // a refusal, or no memory
    measurement.is_absent = dynamic_cast<const c10::ValueError*>(&error) != nullptr;
    verdict = {.words = kernels::sentence_of(error)};
  }
  return measurement;
}

}  // namespace strata::tools
