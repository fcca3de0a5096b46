// SPDX-License-Identifier: MIT
#include "modules/mlp.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/fp8_gated_linear.h"
#include "kernels/linear/fp8_linear.h"
#include "kernels/swiglu/swiglu.h"
#include "modules/selective_recompute.h"

namespace strata::modules {

using kernels::Activation;

Mlp::Mlp(const Scope& scope, const Options& options)
    : gated_(options.gated),
      activation_(options.activation),
      is_epilogue_(!gated_ && kernels::is_epilogue(activation_)),
      up_(scope / (gated_ ? "gate_up" : "up"), {.outputs = (gated_ ? 2 : 1) * options.feed_forward,
                                                .inputs = options.inputs,
                                                .has_bias = options.has_biases,
                                                .initialization = options.inner_initialization,
                                                .activation = is_epilogue_ ? activation_ : Activation::none}),
      down_(scope / "down", {.outputs = options.outputs,
                             .inputs = options.feed_forward,
                             .has_bias = options.has_biases,
                             .initialization = options.last_initialization,
                             .activation = options.last_activation}),
      activation_level_(is_epilogue_ ? kernels::Level::aten : scope.level("activation")) {}

Mlp::Mlp(const Scope& scope, const BlockConfig& config)
    : Mlp(scope, {.inputs = config.width,
                  .feed_forward = config.feed_forward,
                  .outputs = config.width,
                  .gated = config.gated,
                  .has_biases = config.biases,
                  .activation = config.activation,
                  .inner_initialization = config.inner_initialization,
                  .last_initialization = config.last_initialization}) {}

Tensor Mlp::operator()(const Tensor& x, const StepContext& context) const {
  const bool selective = context.find<SelectiveRecompute>() != nullptr;
  if (is_epilogue_) {
    // relu saves only its output, which the second layer saves too.
    if (!selective || !kernels::needs_input(activation_)) return down_(up_(x));
    const auto [y, pre_activation] = up_.with_pre_activation(x);
    return use_recomputed({y, pre_activation, [up = up_](const Tensor& before) { return up.activated(before); }},
                          down_);
  }
  if (gated_ && up_.can_fuse_gate(x)) return down_(up_.gated(x, activation_));
  if (gated_) {
    const auto up = up_.fp8_layer(), down = down_.fp8_layer();
    // Nobody saves y, so there is nothing to recompute with SelectiveRecompute.
    if (up && down && kernels::can_fuse_gated_fp8(activation_level_, up->formats)) {
      const auto [y, amax] = kernels::fp8_gated_linear(x, *up, activation_);
      return kernels::fp8_linear(y, *down, amax);
    }
  }
  const auto activated = [gated = gated_, kind = activation_, level = activation_level_](const Tensor& product) {
    return gated ? kernels::swiglu(product, kind, level) : kernels::activation(product, kind, level);
  };
  if (!selective) return down_(activated(up_(x)));
  const Tensor product = up_(x);
  return use_recomputed({activated(product), product, activated}, down_);
}

kernels::ProductOfNorm Mlp::forward_from_unnormed(const kernels::NormedInput& input) const {
  const auto [hidden, sum] = up_.norm_and_multiply(input, activation_);
  return {down_(hidden), sum};
}

}  // namespace strata::modules
