// SPDX-License-Identifier: MIT
#include "tools/hf/rotary.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace strata::hf {
namespace {

using modules::Rotary;
using modules::RotaryScaling;
using modules::RotaryScalingType;

RotaryScaling read_llama3(const JsonSection& json) {
  return {.type = RotaryScalingType::llama3,
          .factor = json.number("factor", modules::kScalingFactors),
          .low_frequency = json.number("low_freq_factor", modules::kScalingFrequencies),
          .high_frequency = json.number("high_freq_factor", modules::kScalingFrequencies),
          .original_sequence = json.count("original_max_position_embeddings", kMostTokens)};
}

RotaryScaling read_yarn(const JsonSection& json, int64_t sequence) {
  json.expect("truncate", true);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  RotaryScaling scaling = {.type = RotaryScalingType::yarn, .factor = json.number("factor", modules::kScalingFactors)};
  scaling.original_sequence = json.has(kOriginal) ? json.count(kOriginal, kMostTokens) : sequence;
  if (json.has("beta_fast")) scaling.beta_fast = json.number("beta_fast", modules::kScalingFrequencies);
  if (json.has("beta_slow")) scaling.beta_slow = json.number("beta_slow", modules::kScalingFrequencies);
  // 0 would stand for the usual factor here, and transformers multiplies by it.
  if (json.has("attention_factor")) {
    scaling.attention_factor = json.number("attention_factor", configs::positive_to(modules::kMostAttentionFactor));
  }
  return scaling;
}

RotaryScaling read_scaling(const JsonSection& json, int64_t sequence) {
  // Files of some versions have both names of the type.
  constexpr std::array<std::string_view, 3> kHarmless = {"rope_theta", "type", "original_max_position_embeddings"};
  json.expect("partial_rotary_factor", 1.0);
  const char* key = json.has("rope_type") ? "rope_type" : "type";
  const std::string type = json.has(key) ? json.text(key) : "default";
  RotaryScaling scaling;
  if (type == "llama3") {
    scaling = read_llama3(json);
  } else if (type == "yarn") {
    scaling = read_yarn(json, sequence);
  } else if (type == "linear") {
    scaling = {.type = RotaryScalingType::linear, .factor = json.number("factor", modules::kScalingFactors)};
  } else if (type != "default") {
    throw json.refuse(key, "default, linear, llama3 or yarn");
  }
  json.refuse_other_keys(kHarmless);
  return scaling;
}

double base_of(const JsonSection& json, const char* key, double otherwise) {
  return json.has(key) ? json.number(key, modules::kRotaryBases) : otherwise;
}

// `base` is for a section without rope_theta.
Rotary read_section(const JsonSection& json, double base, int64_t sequence) {
  return {base_of(json, "rope_theta", base), read_scaling(json, sequence)};
}

}  // namespace

Rotary read_rotary(const JsonSection& json, int64_t sequence) {
  const double base = base_of(json, "rope_theta", 10'000);
  const bool has_newer = json.has("rope_parameters"), has_older = json.has("rope_scaling");
  if (!has_newer && !has_older) return {base};
  return read_section(json.section(has_older ? "rope_scaling" : "rope_parameters"), base, sequence);
}

RotaryPair read_rotary_pair(const JsonSection& json, int64_t sequence) {
  RotaryPair pair = {{base_of(json, "rope_local_base_freq", 10'000)}, {base_of(json, "rope_theta", 1'000'000)}};
  if (json.has("rope_parameters")) {
    const JsonSection both = json.section("rope_parameters");
    for (auto& [kind, rotary] :
         {std::pair<const char*, Rotary&>{"sliding_attention", pair.sliding}, {"full_attention", pair.full}}) {
      if (both.has(kind)) rotary = read_section(both.section(kind), rotary.base, sequence);
    }
    both.refuse_other_keys({});
  }
  if (json.has("rope_scaling")) pair.full = read_section(json.section("rope_scaling"), pair.full.base, sequence);
  return pair;
}

nlohmann::ordered_json rope_scaling(const RotaryScaling& scaling) {
  nlohmann::ordered_json json;
  switch (scaling.type) {
    case RotaryScalingType::none:
      break;
    case RotaryScalingType::llama3:
      json = {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_frequency},
              {"high_freq_factor", scaling.high_frequency},
              {"original_max_position_embeddings", scaling.original_sequence}};
      break;
    case RotaryScalingType::linear:
      json = {{"rope_type", "linear"}, {"factor", scaling.factor}};
      break;
    case RotaryScalingType::yarn:
      json = {{"rope_type", "yarn"},
              {"factor", scaling.factor},
              {"original_max_position_embeddings", scaling.original_sequence},
              {"beta_fast", scaling.beta_fast},
              {"beta_slow", scaling.beta_slow}};
      if (scaling.attention_factor > 0) json["attention_factor"] = scaling.attention_factor;
      break;
  }
  return json;
}

}  // namespace strata::hf
