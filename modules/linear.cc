// SPDX-License-Identifier: MIT
#include "modules/linear.h"

#include <cmath>

#include "kernels/linear/fp8_products.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/linear/sparse_linear.h"

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
    : weight_(scope.parameter({.name = "weight",
                               .shape = {options.outputs, options.inputs},
                               .initialization = options.initialization,
                               .constant = bound(options),
                               .is_linear_weight = true})),
      bias_(bias(scope, options)),
      activation_(options.activation),
      level_(scope.level("linear")),
      formats_(scope.product_formats({options.outputs, options.inputs, options.has_bias, options.activation})),
      scales_(scope.delayed_scales()),
      prune_mask_(scope.prune_mask()),
      prunes_(scope.prunes()),
      activation_level_(
          (formats_ || prune_mask_) && activation_ != kernels::Activation::none ? scope.level("activation") : level_) {}

std::optional<kernels::Fp8Layer> Linear::fp8_layer() const {
  if (!formats_ || activation_ != kernels::Activation::none ||
      !kernels::multiplies_in_fp8(*formats_, level_, weight_.size(1), weight_.size(0))) {
    return {};
  }
  return kernels::Fp8Layer{weight_, bias_, *formats_, scales_};
}

Tensor Linear::changed_product(const Tensor& x) const {
  if (prune_mask_) return kernels::sparse_linear(x, weight_, bias_, level_, *prune_mask_);
  return kernels::quantized_linear(x, weight_, bias_, *formats_, level_, scales_);
}

Tensor Linear::operator()(const Tensor& x) const {
  if (is_plain()) return kernels::linear(x, weight_, bias_, activation_, level_);
  const Tensor product = changed_product(x);
  return activation_ == kernels::Activation::none ? product : activated(product);
}

kernels::ActivatedProduct Linear::with_pre_activation(const Tensor& x) const {
  if (is_plain()) return kernels::linear_and_pre_activation(x, weight_, bias_, activation_, level_);
  const Tensor product = changed_product(x);
  return {activated(product), product};
}

}  // namespace strata::modules
