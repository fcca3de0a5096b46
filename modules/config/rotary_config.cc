// SPDX-License-Identifier: MIT
#include "modules/config/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text/word_of.h"

namespace strata::modules {
namespace {

using Type = RotaryScalingType;

struct Key {
  std::string name;
  bool differs_from_default;
  std::vector<Type> reading_types;
};

std::vector<Key> keys_of(const RotaryScaling& scaling) {
  const RotaryScaling unused;
  return {{"factor", scaling.factor != unused.factor, {Type::llama3, Type::linear, Type::yarn}},
          {"low_frequency", scaling.low_frequency != unused.low_frequency, {Type::llama3}},
          {"high_frequency", scaling.high_frequency != unused.high_frequency, {Type::llama3}},
          {"original_sequence", scaling.original_sequence != unused.original_sequence, {Type::llama3, Type::yarn}},
          {"beta_fast", scaling.beta_fast != unused.beta_fast, {Type::yarn}},
          {"beta_slow", scaling.beta_slow != unused.beta_slow, {Type::yarn}},
          {"attention_factor", scaling.attention_factor != unused.attention_factor, {Type::yarn}}};
}

}  // namespace

double RotaryScaling::table_factor() const {
  if (type != Type::yarn) return 1;
  return attention_factor > 0 ? attention_factor : 0.1 * std::log(factor) + 1;
}

void check_rotary(const Rotary& rotary, const std::string& why_not, const std::string& prefix,
                  configs::Checks& checks) {
  const std::string section = prefix + "rotary_scaling";
  if (!checks.can_check({section})) return;
  const RotaryScaling& scaling = rotary.scaling;
  const std::string type = word_of(scaling.type);
  if (!why_not.empty() && scaling.type != Type::none) {
    checks.fail(section + ".type", "expected none, because " + why_not + ", got " + type);
    return;
  }
  for (const Key& key : keys_of(scaling)) {
    if (!key.differs_from_default || std::ranges::find(key.reading_types, scaling.type) != key.reading_types.end())
      continue;
    checks.fail(section + "." + key.name, "changes nothing with rotary_scaling.type: " + type);
  }
  if (scaling.type == Type::llama3 && scaling.low_frequency >= scaling.high_frequency) {
    checks.fail(section + ".high_frequency", "expected a number above low_frequency");
  }
  if (scaling.type == Type::yarn && scaling.beta_slow >= scaling.beta_fast) {
    checks.fail(section + ".beta_fast", "expected a number above beta_slow");
  }
  if (scaling.type == Type::yarn && checks.can_check({prefix + "rotary_base"}) && rotary.base <= 1) {
    checks.fail(prefix + "rotary_base", "expected a number above 1, because rotary_scaling.type is yarn");
  }
}

}  // namespace strata::modules
