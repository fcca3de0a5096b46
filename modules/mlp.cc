// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/swiglu/swiglu.h"

namespace strata::modules {

Mlp::Mlp(const ParameterLookup& parameter, const std::string& name, const TransformerConfig& config,
         const KernelSelection& kernels)
    : gated_(config.family == Family::llama),
      up_(parameter, name + (gated_ ? ".gate_up" : ".up"), config.family == Family::gpt2,
          gated_ ? kernels::Activation::none : kernels::Activation::gelu_tanh, kernels.linear),
      down_(parameter, name + ".down", config.family == Family::gpt2, kernels::Activation::none, kernels.linear),
      activation_level_(kernels.activation) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return down_(gated_ ? kernels::swiglu(up_(x), activation_level_) : up_(x));
}

}  // namespace strata::modules
