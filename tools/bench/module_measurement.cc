// SPDX-License-Identifier: MIT
#include "tools/bench/module_measurement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <utility>

#include "kernels/levels.h"
#include "kernels/proof/agreement.h"
#include "modules/config/kernels_config.h"
#include "modules/model_sources.h"
#include "tools/bench/level_or_aten.h"
#include "tools/bench/timer.h"
#include "trainer/memory/allocation_meter.h"

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

std::vector<Tensor> leaves_of(const Tensor& x, const Parameters& parameters) {
  std::vector<Tensor> leaves = {x};
  for (const auto& [name, parameter] : parameters) leaves.push_back(parameter);
  return leaves;
}

// Returns the output, and the gradients of x and of the parameters.
std::vector<Tensor> evaluate(const ModuleCase::Function& run, const Tensor& x, const Parameters& parameters,
                             const Tensor& grad_y) {
  const Tensor y = run(x);
  std::vector<Tensor> results = torch::autograd::grad({y}, leaves_of(x, parameters), {grad_y});
  results.insert(results.begin(), y.detach());
  return results;
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
std::vector<Tensor> evaluate_naive(const ModuleCase& module, const Parameters& packed, const Tensor& x,
                                   const Tensor& grad_y, at::ScalarType dtype) {
  const Parameters parameters = separated(module, packed, dtype);
  const Tensor input = leaf(x.detach(), dtype);
  const std::vector<Tensor> results =
      evaluate([&](const Tensor& of) { return module.naive(parameters, of); }, input, parameters, grad_y.to(dtype));
  Parameters gradients;
  size_t place = 2;
  for (const auto& [name, parameter] : parameters) gradients[name] = results[place++];
  std::vector<Tensor> joined = {results[0], results[1]};
  for (const auto& [name, parameter] : packed) {
    std::vector<Tensor> parts;
    for (const auto& [part, rows] : separate_parameters(module, name, parameter.size(0))) {
      parts.push_back(gradients.at(part));
    }
    joined.push_back(at::cat(parts));
  }
  return joined;
}

ModuleTimes time(const ModuleCase::Function& run, const Tensor& x, const Parameters& parameters, const Tensor& grad_y) {
  ModuleTimes times;
  {
    const trainer::AllocationMeter meter(x.device());
    evaluate(run, x, parameters, grad_y);
    times.peak_bytes = meter.counts().most;
  }
  Tensor y;
  times.forward = sampled_seconds(x.device(), [&](int64_t) { y = run(x); });
  const std::vector<Tensor> leaves = leaves_of(x, parameters);
  std::vector<Tensor> gradients;
  times.backward = sampled_seconds(
      x.device(), [&](int64_t) { gradients = torch::autograd::grad({y}, leaves, {grad_y}, /*retain_graph=*/true); });
  return times;
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
      parameters_[parameter.name] = leaf(random_parameter(parameter, options), dtype);
    }
  }
  for (const modules::Module& part : declared.modules()) ops_.insert(part.ops.begin(), part.ops.end());
  x_ = leaf(at::randn(module_.input, options), dtype);
  const Tensor y = [&] {
    const c10::NoGradGuard no_gradients;
    return module_.naive(separated(module_, parameters_, dtype), x_);
  }();
  grad_y_ = at::randn(y.sizes(), options).to(dtype);
  exact_ = evaluate_naive(module_, parameters_, x_, grad_y_, at::kDouble);
  rounded_ = evaluate_naive(module_, parameters_, x_, grad_y_, dtype);
}

ModuleMeasurement ModuleWorkload::measure(Level level) const {
  LevelOrAten chosen = level_or_aten(level, ops_, kernels::target_of(device_));
  std::map<std::string, std::string> levels;
  chosen.kernels.levels.each([&](std::string_view op, std::optional<Level>& of_op) {
    if (ops_.contains(op)) levels[std::string(op)] = kernels::name(of_op.value_or(level));
  });
  if (chosen.is_absent) return {.levels = levels, .verdict = {.words = chosen.reason}, .is_absent = true};
  modules::BindingSource source([&](const std::string& name) { return parameters_.at(name); });
  ModuleMeasurement result = measure(module_.construct(Scope(source, chosen.kernels)), parameters_);
  result.levels = levels;
  return result;
}

ModuleMeasurement ModuleWorkload::measure_naive() const {
  const Parameters parameters = separated(module_, parameters_, dtype_);
  ModuleMeasurement measurement;
  measurement.verdict.agreed = true;
  measurement.times = time([&](const Tensor& x) { return module_.naive(parameters, x); }, x_, parameters, grad_y_);
  return measurement;
}

ModuleMeasurement ModuleWorkload::measure(const ModuleCase::Function& run, const Parameters& parameters) const {
  ModuleMeasurement measurement;
  kernels::Verdict& verdict = measurement.verdict;
  const double terms = static_cast<double>(x_.numel() / x_.size(-1));
  try {
    const std::vector<Tensor> results = evaluate(run, x_, parameters, grad_y_);
    auto name = parameters.begin();
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
    if (verdict.agreed) measurement.times = time(run, x_, parameters, grad_y_);
  } catch (const std::exception& error) {  // a refusal, or no memory
    measurement.is_absent = dynamic_cast<const c10::ValueError*>(&error) != nullptr;
    verdict = {.words = kernels::sentence_of(error)};
  }
  return measurement;
}

}  // namespace strata::tools
