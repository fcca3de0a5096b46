// SPDX-License-Identifier: MIT
#include "modules/model_config.h"

#include <string>

#include "modules/divisors.h"

namespace strata::modules {
namespace {

void check_attention(const TransformerConfig& model, configs::Checks& checks) {
  if (checks.can_check({"width", "heads"})) {
    if (model.width % model.heads != 0) {
      checks.fail("heads", not_divided("width", model.width, "heads", model.heads));
    } else if (checks.can_check({"family"}) && model.family == Family::llama && model.head_width() % 2 != 0) {
      checks.fail("heads", "rotary positions turn pairs: width " + std::to_string(model.width) + " / heads " +
                               std::to_string(model.heads) + " = " + std::to_string(model.head_width()) +
                               " must be even");
    }
  }
  if (checks.can_check({"heads", "key_value_heads"}) && model.heads % model.key_value_head_count() != 0) {
    checks.fail("key_value_heads", not_divided("heads", model.heads, "key_value_heads", model.key_value_heads));
  }
}

}  // namespace

void check(const TransformerConfig& model, configs::Checks& checks) {
  check_attention(model, checks);
  if (checks.can_check({"family", "feed_forward"}) && model.family == Family::llama && model.feed_forward == 0) {
    checks.fail("feed_forward", "expected a width, because the llama family has no usual one, got none");
  }
  if (!checks.can_check({"family", "rotary_scaling"}) || model.rotary_scaling.type == RotaryScalingType::none) return;
  if (model.family == Family::gpt2) {
    checks.fail("rotary_scaling.type", "expected none, because the gpt2 family has learned positions, got llama3");
  } else if (model.rotary_scaling.low_frequency >= model.rotary_scaling.high_frequency) {
    checks.fail("rotary_scaling.high_frequency", "expected a number above low_frequency");
  }
}

}  // namespace strata::modules
