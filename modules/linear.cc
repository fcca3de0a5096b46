// SPDX-License-Identifier: MIT
#include "modules/linear.h"

#include <cmath>

namespace strata::modules {
namespace {

double bound(const Linear::Options& options) {
  if (options.initialization != Initialization::uniform) return 0;
  return 1 / std::sqrt(static_cast<double>(options.inputs));
}

Tensor bias(const Scope& scope, const Linear::Options& options) {
  if (!options.has_bias) return {};
  const bool uniform = options.initialization == Initialization::uniform;
  const Initialization initialization = uniform ? Initialization::uniform : Initialization::zeros;
  return scope.parameter({"bias", {options.outputs}, initialization, bound(options)});
}

}  // namespace

Linear::Linear(const Scope& scope, const Options& options)
    : weight_(scope.parameter({"weight", {options.outputs, options.inputs}, options.initialization, bound(options)})),
      bias_(bias(scope, options)),
      activation_(options.activation),
      level_(scope.level("linear")) {}

}  // namespace strata::modules
