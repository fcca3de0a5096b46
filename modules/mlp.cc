// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/swiglu/swiglu.h"

namespace strata::modules {

Mlp::Mlp(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
         const KernelSelection& kernels)
    : gated_(config.gated),
      up_(parameter, name + (gated_ ? ".gate_up" : ".up"), config.biases,
          gated_ ? kernels::Activation::none : config.activation, kernels.linear),
      down_(parameter, name + ".down", config.biases, kernels::Activation::none, kernels.linear),
      activation_level_(kernels.activation) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return down_(gated_ ? kernels::swiglu(up_(x), activation_level_) : up_(x));
}

}  // namespace strata::modules
