// SPDX-License-Identifier: MIT
#include "modules/attention.h"

#include "kernels/attention/attention.h"
#include "kernels/rotary/rotary.h"
#include "modules/rotary_tables.h"

namespace strata::modules {

Attention::Attention(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
                     const KernelsConfig& kernels)
    : qkv_(parameter, name + ".qkv", config.biases, kernels::Activation::none, kernels),
      output_(parameter, name + ".output", config.biases, kernels::Activation::none, kernels),
      heads_(config.heads),
      key_value_heads_(config.key_value_heads),
      rotary_(config.rotary),
      causal_(config.causal),
      rotary_level_(kernels_for(kernels, name).rotary),
      attention_level_(kernels_for(kernels, name).attention) {}

Tensor Attention::operator()(const Tensor& x, const StepContext& context) const {
  Tensor qkv = qkv_(x);
  if (rotary_) {
    const auto& [cosine, sine] = context.get<RotaryTables>();
    qkv = kernels::rotary(std::move(qkv), cosine, sine, heads_, key_value_heads_, rotary_level_);
  }
  return output_(kernels::attention(qkv, heads_, key_value_heads_, {.causal = causal_}, attention_level_));
}

}  // namespace strata::modules
