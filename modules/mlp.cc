// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/swiglu/swiglu.h"
#include "modules/made_again.h"

namespace strata::modules {

Mlp::Mlp(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
         const KernelsConfig& kernels)
    : gated_(config.gated),
      up_(parameter, name + (gated_ ? ".gate_up" : ".up"), config.biases,
          gated_ ? kernels::Activation::none : config.activation, kernels),
      down_(parameter, name + ".down", config.biases, kernels::Activation::none, kernels),
      activation_level_(kernels_for(kernels, name).activation) {}

Tensor Mlp::operator()(const Tensor& x, const StepContext& context) const {
  if (context.find<MakeCheapAgain>() == nullptr)
    return down_(gated_ ? kernels::swiglu(up_(x), activation_level_) : up_(x));
  if (!gated_) {
    const auto [y, pre_activation] = up_.with_pre_activation(x);
    return use_without_keeping({y, pre_activation, [up = up_](const Tensor& before) { return up.activated(before); }},
                               down_);
  }
  const auto activated = [level = activation_level_](const Tensor& gate_up) { return kernels::swiglu(gate_up, level); };
  const Tensor gate_up = up_(x);
  return use_without_keeping({activated(gate_up), gate_up, activated}, down_);
}

}  // namespace strata::modules
