// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/swiglu/swiglu.h"
#include "modules/rematerialize.h"

namespace strata::modules {

Mlp::Mlp(const Scope& scope, const BlockConfig& config)
    : gated_(config.gated),
      up_(scope / (gated_ ? "gate_up" : "up"), {.outputs = (gated_ ? 2 : 1) * config.feed_forward,
                                                .inputs = config.width,
                                                .has_bias = config.biases,
                                                .initialization = config.inner_initialization,
                                                .activation = gated_ ? kernels::Activation::none : config.activation}),
      down_(scope / "down", {.outputs = config.width,
                             .inputs = config.feed_forward,
                             .has_bias = config.biases,
                             .initialization = config.last_initialization}),
      activation_level_(gated_ ? scope.level("activation") : kernels::Level::aten) {}

Tensor Mlp::operator()(const Tensor& x, const StepContext& context) const {
  if (context.find<SelectiveRecompute>() == nullptr)
    return down_(gated_ ? kernels::swiglu(up_(x), activation_level_) : up_(x));
  if (!gated_) {
    const auto [y, pre_activation] = up_.with_pre_activation(x);
    return use_rematerialized({y, pre_activation, [up = up_](const Tensor& before) { return up.activated(before); }},
                              down_);
  }
  const auto activated = [level = activation_level_](const Tensor& gate_up) { return kernels::swiglu(gate_up, level); };
  const Tensor gate_up = up_(x);
  return use_rematerialized({activated(gate_up), gate_up, activated}, down_);
}

}  // namespace strata::modules
