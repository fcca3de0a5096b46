// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/activation/activation.h"

namespace strata::modules {

Mlp::Mlp(const ParameterLookup& parameter, const std::string& name, const ModelConfig& config,
         const KernelSelection& kernels)
    : gated_(config.has_gated_mlp()),
      up_(parameter, name + (gated_ ? ".gate_up" : ".up"), config.has_biases(),
          gated_ ? kernels::Activation::none : kernels::Activation::gelu_tanh, kernels.linear),
      down_(parameter, name + ".down", config.has_biases(), kernels::Activation::none, kernels.linear),
      activation_level_(kernels.activation) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return down_(gated_ ? kernels::swiglu(up_(x), activation_level_) : up_(x));
}

}  // namespace strata::modules
